"""A consumer that does each message once: a bill and its message's position are committed together.

    python3 examples/write_bills.py bills.db

Kill it whenever you like, or the hub. There is one bill for each order.
"""

import asyncio
import os
import sys

from hubbub.client import Inbox, connect


async def main(file: str, until: str | None) -> None:
    url = os.environ.get("HUBBUB_URL", "ws://127.0.0.1:8000")
    async with connect(url, hub="demo") as client, Inbox(client, file) as inbox:
        inbox.connection.execute("CREATE TABLE IF NOT EXISTS bills (nr INTEGER PRIMARY KEY, item)")
        async for message in inbox.messages("orders", "billing", start="first"):
            order = message.data
            with inbox.processing(message) as transaction:  # one transaction for both
                bill = transaction.execute("INSERT INTO bills (item) VALUES (?)", (order["item"],))
            print(f"bill {bill.lastrowid} for order {order['order']}: {order['item']}", flush=True)
            if order["item"] == until:
                return


asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
