// Apple's push service on this machine, over HTTP/2 and TLS: node apns.js CERTIFICATE KEY [MAX_STREAMS [GOAWAY_EVERY]]
// Prints its port, then each request as a line of JSON. It checks what Apple checks of a request. A device token that
// begins with `dead` is answered 410, with `slow` after a second, with `hang` never, with `drop` by a reset of the stream.
// With GOAWAY_EVERY, each connection says GOAWAY after that many requests, in the middle of what is under way.
const fs = require('fs');
const http2 = require('http2');

const [, , certificate, key, streams = '1000', every = '0'] = process.argv;
const server = http2.createSecureServer({
  cert: fs.readFileSync(certificate),
  key: fs.readFileSync(key),
  settings: { maxConcurrentStreams: Number(streams) },
});

function problem(headers, body) {
  const device = headers[':path'].replace('/3/device/', '');
  if (headers[':method'] !== 'POST') return [405, 'MethodNotAllowed'];
  if (!/^[0-9a-f]{64,200}$/.test(device.replace(/^(dead|slow|hang|drop)/, '0000'))) return [400, 'BadDeviceToken'];
  if (!headers['apns-topic']) return [400, 'MissingTopic'];
  if (!['alert', 'background'].includes(headers['apns-push-type'])) return [400, 'InvalidPushType'];
  if (!['1', '5', '10'].includes(headers['apns-priority'] || '10')) return [400, 'BadPriority'];
  if (!/^[0-9]+$/.test(headers['apns-expiration'] || '0')) return [400, 'BadExpirationDate'];
  if (Buffer.byteLength(headers['apns-collapse-id'] || '') > 64) return [400, 'BadCollapseId'];
  const token = /^bearer ([\w-]+)\.([\w-]+)\.[\w-]+$/i.exec(headers.authorization || '');
  if (!token) return [403, 'MissingProviderToken'];
  const [head, claims] = [token[1], token[2]].map((part) => JSON.parse(Buffer.from(part, 'base64url')));
  if (head.alg !== 'ES256' || !head.kid || !claims.iss || !claims.iat) return [403, 'InvalidProviderToken'];
  if (body.length > 4096) return [413, 'PayloadTooLarge'];
  let said;
  try { said = JSON.parse(body); } catch { return [400, 'PayloadEmpty']; }
  if (typeof said.aps !== 'object') return [400, 'PayloadEmpty'];
  if (headers['apns-push-type'] === 'background' && headers['apns-priority'] !== '5') return [400, 'BadPriority'];
  if (device.startsWith('dead')) return [410, 'Unregistered'];
  return null;
}

server.on('session', (session) => {
  session.requests = 0;
  session.on('error', () => {});
});

let connections = 0;
server.on('session', () => { connections += 1; });
server.on('stream', (stream, headers) => {
  const session = stream.session;
  const chunks = [];
  session.requests += 1;
  if (Number(every) && session.requests === Number(every)) session.close();
  stream.on('error', () => {});
  stream.on('data', (chunk) => chunks.push(chunk));
  stream.on('end', () => {
    const body = Buffer.concat(chunks);
    const device = headers[':path'].replace('/3/device/', '');
    const found = problem(headers, body);
    console.log(JSON.stringify({ device, connections, headers, body: body.toString(), found }));
    if (device.startsWith('hang')) return;
    if (device.startsWith('drop')) { stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR); return; }
    const answer = () => {
      if (stream.destroyed) return;
      stream.respond({ ':status': found ? found[0] : 200, 'apns-id': '0' });
      stream.end(found ? JSON.stringify({ reason: found[1], timestamp: Date.now() + 1000 }) : '');
    };
    if (device.startsWith('slow')) setTimeout(answer, 1000); else setTimeout(answer, 5);
  });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.stdin.on('end', () => process.exit(0)).resume();
