-- Ids of the audit log are given: those that the table counts tell a hub how many others got.
{given_audit_ids};
