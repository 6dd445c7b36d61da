"""A producer that loses and doubles nothing: an order and its message are committed together.

    python3 examples/take_orders.py shop.db apple pear

Kill it whenever you like, or the hub. What is in the database arrives, once.
"""

import os
import sqlite3
import sys

from hubbub.client.sync import Outbox, connect

file, *items = sys.argv[1:]
shop = sqlite3.connect(file)
shop.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT)")

url = os.environ.get("HUBBUB_URL", "ws://127.0.0.1:8000")
with connect(url, hub="demo") as client, Outbox(client, file) as outbox:
    for item in items:
        with shop:  # one transaction for both
            order = shop.execute("INSERT INTO orders (item) VALUES (?)", (item,)).lastrowid
            outbox.put_in(shop, "orders", {"order": order, "item": item})
        print(f"order {order}: {item}")
    outbox.drained()  # not needed: what is left is sent the next time
shop.close()
