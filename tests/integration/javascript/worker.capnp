# How workerd runs worker.mjs: it may dial the hub on this machine.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worker),
    (name = "internet", network = (allow = ["public", "private"])),
  ],
);

const worker :Workerd.Worker = (
  modules = [
    (name = "worker.mjs", esModule = embed "worker.mjs"),
    (name = "hubbub.js", esModule = embed "hubbub.js"),
  ],
  bindings = [
    (name = "URL", fromEnvironment = "URL"),
    (name = "HUB", fromEnvironment = "HUB"),
    (name = "TOKEN", fromEnvironment = "TOKEN"),
  ],
  compatibilityDate = "2026-11-01",
  compatibilityFlags = ["nodejs_compat"],
);
