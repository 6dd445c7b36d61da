"""Code shared by all SQL stores: schema, migrations, reads, writes, transactions."""
