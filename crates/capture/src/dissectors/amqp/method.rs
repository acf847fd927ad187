//! The methods of AMQP 0-9-1 with the extensions of RabbitMQ: names, and what is expected of them (AMQP 0-9-1, section 1 of
//! the generated reference; RabbitMQ's documentation of its extensions).

/// What a method is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It is answered, unless its arguments say that nobody waits.
    Ask(Wait),
    /// It answers the oldest question of its channel.
    Answer,
    /// It answers nothing and asks nothing.
    Tell,
    /// It publishes: content follows.
    Publish,
    /// It delivers: content follows.
    Deliver,
    /// It answers, and content follows.
    AnswerWithContent,
    /// It confirms or refuses what was published or delivered.
    Settle,
}

/// Where a method says that nobody waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Always,
    /// In that bit, behind so many bytes and so many short strings.
    Unless {
        bytes: usize,
        strings: usize,
        bit: u8,
    },
}

impl Wait {
    /// Whether nobody waits, from a method's arguments.
    pub fn is_waived(self, arguments: &[u8]) -> bool {
        let Wait::Unless { bytes, strings, bit } = self else { return false };
        let mut at = bytes;
        for _ in 0..strings {
            let Some(&length) = arguments.get(at) else { return false };
            at += 1 + usize::from(length);
        }
        arguments.get(at).is_some_and(|bits| bits >> bit & 1 == 1)
    }
}

/// Name and role of a method, by the numbers of its class and its own.
pub(super) fn method(class: u16, method: u16) -> Option<(&'static str, Role)> {
    use Role::{Answer, AnswerWithContent, Ask, Deliver, Publish, Settle, Tell};
    const WAITS: Role = Ask(Wait::Always);
    const fn waits(bytes: usize, strings: usize, bit: u8) -> Role {
        Ask(Wait::Unless { bytes, strings, bit })
    }
    Some(match (class, method) {
        (10, 10) => ("connection.start", WAITS),
        (10, 11) => ("connection.start-ok", Answer),
        (10, 20) => ("connection.secure", WAITS),
        (10, 21) => ("connection.secure-ok", Answer),
        (10, 30) => ("connection.tune", WAITS),
        (10, 31) => ("connection.tune-ok", Answer),
        (10, 40) => ("connection.open", WAITS),
        (10, 41) => ("connection.open-ok", Answer),
        (10, 50) => ("connection.close", WAITS),
        (10, 51) => ("connection.close-ok", Answer),
        (10, 60) => ("connection.blocked", Tell),
        (10, 61) => ("connection.unblocked", Tell),
        (10, 70) => ("connection.update-secret", WAITS),
        (10, 71) => ("connection.secret-ok", Answer),
        (20, 10) => ("channel.open", WAITS),
        (20, 11) => ("channel.open-ok", Answer),
        (20, 20) => ("channel.flow", WAITS),
        (20, 21) => ("channel.flow-ok", Answer),
        (20, 40) => ("channel.close", WAITS),
        (20, 41) => ("channel.close-ok", Answer),
        (40, 10) => ("exchange.declare", waits(2, 2, 4)),
        (40, 11) => ("exchange.declare-ok", Answer),
        (40, 20) => ("exchange.delete", waits(2, 1, 1)),
        (40, 21) => ("exchange.delete-ok", Answer),
        (40, 30) => ("exchange.bind", waits(2, 3, 0)),
        (40, 31) => ("exchange.bind-ok", Answer),
        (40, 40) => ("exchange.unbind", waits(2, 3, 0)),
        (40, 51) => ("exchange.unbind-ok", Answer),
        (50, 10) => ("queue.declare", waits(2, 1, 4)),
        (50, 11) => ("queue.declare-ok", Answer),
        (50, 20) => ("queue.bind", waits(2, 3, 0)),
        (50, 21) => ("queue.bind-ok", Answer),
        (50, 30) => ("queue.purge", waits(2, 1, 0)),
        (50, 31) => ("queue.purge-ok", Answer),
        (50, 40) => ("queue.delete", waits(2, 1, 2)),
        (50, 41) => ("queue.delete-ok", Answer),
        (50, 50) => ("queue.unbind", WAITS),
        (50, 51) => ("queue.unbind-ok", Answer),
        (60, 10) => ("basic.qos", WAITS),
        (60, 11) => ("basic.qos-ok", Answer),
        (60, 20) => ("basic.consume", waits(2, 2, 3)),
        (60, 21) => ("basic.consume-ok", Answer),
        (60, 30) => ("basic.cancel", waits(0, 1, 0)),
        (60, 31) => ("basic.cancel-ok", Answer),
        (60, 40) => ("basic.publish", Publish),
        (60, 50) => ("basic.return", Deliver),
        (60, 60) => ("basic.deliver", Deliver),
        (60, 70) => ("basic.get", WAITS),
        (60, 71) => ("basic.get-ok", AnswerWithContent),
        (60, 72) => ("basic.get-empty", Answer),
        (60, 80) => ("basic.ack", Settle),
        (60, 90) => ("basic.reject", Tell),
        (60, 100) => ("basic.recover-async", Tell),
        (60, 110) => ("basic.recover", WAITS),
        (60, 111) => ("basic.recover-ok", Answer),
        (60, 120) => ("basic.nack", Settle),
        (85, 10) => ("confirm.select", waits(0, 0, 0)),
        (85, 11) => ("confirm.select-ok", Answer),
        (90, 10) => ("tx.select", WAITS),
        (90, 11) => ("tx.select-ok", Answer),
        (90, 20) => ("tx.commit", WAITS),
        (90, 21) => ("tx.commit-ok", Answer),
        (90, 30) => ("tx.rollback", WAITS),
        (90, 31) => ("tx.rollback-ok", Answer),
        _ => return None,
    })
}
