"""The admin API over HTTP: a table of routes, and an application and an OpenAPI document that
both follow from it."""
