//! From what is written of NATS to what is planned.

use super::config::{Nats, Storage};
use super::plan::{NatsPlan, StreamPlan};
use crate::config::secret::SecretSource;
use crate::context::Context;

pub(crate) fn resolve(nats: &Nats, context: &mut Context<'_>) -> NatsPlan {
    if nats.password.is_some() && nats.username.is_none() {
        context.error_with_help(
            "nats.password",
            "NATS takes no password without a user name",
            "add `username`",
        );
    }
    if nats.token.is_some() && nats.username.is_some() {
        let help = "remove `token`, or `username` and `password`";
        context.error_with_help("nats.token", "a client shows a token or a user name, not both", help);
    }
    if let Some(name) = &nats.stream
        && (name.is_empty()
            || name.contains(|c: char| c.is_whitespace() || c.is_control() || ".*>/\\\"".contains(c)))
    {
        let help = "a name has no space, no dot, no slash, and neither `*` nor `>`";
        context.error_with_help("nats.stream", format!("`{name}` is no name of a stream"), help);
    }
    let storage = nats.create_stream.map(|storage| match storage {
        Storage::Memory => "memory",
        Storage::File => "file",
    });
    let mut secret =
        |source: &Option<SecretSource>, key| source.as_ref().and_then(|source| context.secret(source, key));
    let has_stream = nats.stream.is_some() || storage.is_some();
    NatsPlan {
        username: nats.username.clone(),
        password: secret(&nats.password, "nats.password.env"),
        token: secret(&nats.token, "nats.token.env"),
        stream: has_stream.then(|| StreamPlan { name: nats.stream.clone(), storage }),
        in_flight: nats.in_flight,
    }
}
