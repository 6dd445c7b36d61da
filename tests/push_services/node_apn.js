// Sends notifications with another client library: node node_apn.js PORT CERTIFICATE KEY_FILE DEVICE...
// Prints what the library says about them, as JSON.
const fs = require('fs');
const apn = require('@parse/node-apn');

const [, , port, certificate, key, ...devices] = process.argv;
const provider = new apn.Provider({
  token: { key: fs.readFileSync(key), keyId: 'KEYID12345', teamId: 'TEAMID1234' },
  production: true,
  address: '127.0.0.1',
  port: Number(port),
  ca: fs.readFileSync(certificate),
  rejectUnauthorized: true,
});
const note = new apn.Notification({ alert: { title: 'Hello' }, topic: 'org.example.app', pushType: 'alert' });
note.expiry = 0;
note.priority = 10;
provider.send(note, devices).then((result) => {
  console.log(JSON.stringify({
    sent: result.sent.map((each) => each.device),
    failed: result.failed.map((each) => [each.device, each.status, each.response && each.response.reason]),
  }));
  provider.shutdown(() => process.exit(0));
  setTimeout(() => process.exit(0), 500);
});
