"""Prints webhooks: `python3 examples/webhook_receiver.py PORT [SECRET [TOPIC…]]`."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hubbub.client.webhooks.receiver import Delivery, Receiver


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = receiver.answer(self.command, self.path, self.headers, body, show)
        self.send_response(answer.status)
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_POST


def show(message: Delivery) -> None:
    print(f"{message.channel}: {message.text}", flush=True)


receiver = Receiver(secret=sys.argv[2] if sys.argv[2:] else None, topics=sys.argv[3:])
server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print(f"listening on port {server.server_port}", flush=True)
server.serve_forever()
