"""A small auth provider: says who a client is and which channels it may use.

    python3 examples/auth_provider.py 9000

It takes `{"user": "ann", "password": "secret"}`, and shows the contract and nothing more: put the
same answer behind your own login.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PASSWORDS = {"ann": "secret", "bob": "secret"}


class Provider(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        credentials = json.loads(body)  # what the client sent, untouched
        user = credentials["user"]
        if PASSWORDS.get(user) != credentials["password"]:
            self.answer({"success": False, "message": "wrong user or password"})
            return
        self.answer(
            {
                "success": True,
                "userID": user,
                "extra": {"name": user.capitalize()},
                "expiresIn": 3600,
                "channels": [
                    {"channel": f"orders:{user}:*", "subscribe": True},
                    {"channel": "support:*", "subscribe": True, "publish": True},
                ],
            }
        )

    def answer(self, verdict: dict[str, object]) -> None:
        body = json.dumps(verdict).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    port = int(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", port), Provider)
    print(f"the auth provider listens on port {port}", flush=True)
    server.serve_forever()
