"""What all SQL databases share: schema, migrations, reads, writes, transactions."""
