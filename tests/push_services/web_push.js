// A push service of browsers on this machine: `node web_push.js PORT`. What is pushed is decrypted, and signatures are
// verified, by the npm package web-push-testing.
const PushApiModel = require('web-push-testing/src/PushApiModel.js');
const WebPushTestingServer = require('web-push-testing/src/server.js');

const Model = PushApiModel.PushApiModel || PushApiModel;
new WebPushTestingServer(new Model(), Number(process.argv[2])).startServer();
