//! What the runner gives to load threads while they work: captured values once, an access token again and again.

use plimsoll_codec::hiding::hide;
use plimsoll_scenario::plan::Captures;
use rustls::KeyLog;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

/// Earlier tokens that are remembered, so that nobody's words tell them; a token is renewed once a second at most.
const REMEMBERED: usize = 1000;

/// What is given to all load threads of a population.
#[derive(Default)]
pub struct RunContext {
    /// What set-up steps captured, once they have.
    pub captures: OnceLock<Captures>,
    /// The access token, which all populations have in common.
    pub token: Arc<Token>,
    /// Where TLS sessions of clients leave their keys, for whoever may read them off the wire.
    pub keys: Option<Arc<dyn KeyLog>>,
}

/// An access token that is renewed while others use it. Each renewal is a *generation*; 0 is before the first.
#[derive(Default)]
pub struct Token {
    generation: AtomicU64,
    /// The newest generation that the platform refused.
    refused: AtomicU64,
    value: Mutex<Arc<str>>,
    /// Earlier ones, the newest last: answers to requests with them are still under way.
    past: Mutex<VecDeque<Arc<str>>>,
    /// Who renews it.
    keeper: OnceLock<Thread>,
}

impl Token {
    /// Takes the place of the token so far.
    pub fn renew(&self, value: &str) {
        let mut current = self.value();
        let before = std::mem::replace(&mut *current, value.into());
        let mut past = self.past();
        past.push_back(before);
        if past.len() > REMEMBERED {
            past.pop_front();
        }
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The token and its generation.
    pub fn current(&self) -> (u64, Arc<str>) {
        let value = self.value();
        (self.generation.load(Ordering::Acquire), Arc::clone(&value))
    }

    /// The calling thread is woken when the platform refuses a token.
    pub fn keep_here(&self) {
        // There is one keeper in a run.
        let _ = self.keeper.set(std::thread::current());
    }

    /// The platform has refused that generation; wakes the keeper where it is the newest and was not refused before.
    pub fn refuse(&self, generation: u64) {
        if self.refused.fetch_max(generation, Ordering::AcqRel) < generation
            && let Some(keeper) = self.keeper.get()
        {
            keeper.unpark();
        }
    }

    /// Whether the platform has refused the present token.
    pub fn is_refused(&self) -> bool {
        let generation = self.generation.load(Ordering::Acquire);
        generation > 0 && self.refused.load(Ordering::Acquire) >= generation
    }

    /// A text of the platform's without any token of this run, which it may have repeated.
    pub fn hide(&self, text: &str) -> String {
        let hidden = hide(text, &self.current().1);
        self.past().iter().fold(hidden, |text, token| hide(&text, token))
    }

    fn past(&self) -> MutexGuard<'_, VecDeque<Arc<str>>> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn value(&self) -> MutexGuard<'_, Arc<str>> {
        // A text that was half replaced does not exist.
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A load thread's view of what is given: one look at a number for each message, and a lock only after a renewal.
pub struct View {
    run_context: Arc<RunContext>,
    generation: u64,
    token: Arc<str>,
}

impl View {
    /// A view that has seen nothing yet.
    pub fn of(run_context: &Arc<RunContext>) -> View {
        View { run_context: Arc::clone(run_context), generation: 0, token: Arc::default() }
    }

    /// Sees the token that was renewed since the last call.
    pub fn refresh(&mut self) {
        if self.run_context.token.generation.load(Ordering::Relaxed) != self.generation {
            (self.generation, self.token) = self.run_context.token.current();
        }
    }

    /// What set-up steps captured, once they have.
    pub fn captures(&self) -> Option<&Captures> {
        self.run_context.captures.get()
    }

    /// The token as it was seen last.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Its generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// An answer says that the token of a generation is refused; says nothing where there is none.
    pub fn refuse(&self, generation: u64) {
        self.run_context.token.refuse(generation);
    }

    /// A text of the platform's without what was captured in secret for that device and that subscriber, which it may have
    /// repeated. Tokens are hidden where texts leave the load thread.
    pub fn hide_captured(&self, text: String, (device, subscriber): (u32, u32)) -> String {
        match self.captures() {
            Some(captures) => captures.hide(text, device, subscriber),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_token_stays_refused_until_it_is_renewed() {
        let run_context = Arc::new(RunContext::default());
        let mut view = View::of(&run_context);
        view.refresh();
        assert_eq!((view.token(), view.generation()), ("", 0));
        assert!(!run_context.token.is_refused());
        run_context.token.renew("first");
        view.refresh();
        assert_eq!((view.token(), view.generation()), ("first", 1));
        run_context.token.refuse(1);
        assert!(run_context.token.is_refused());
        run_context.token.renew("second");
        assert!(!run_context.token.is_refused());
        // An answer that comes late speaks of the token before.
        run_context.token.refuse(1);
        assert!(!run_context.token.is_refused());
        view.refresh();
        assert_eq!((view.token(), view.generation()), ("second", 2));
        assert_eq!(run_context.token.hide("no second chance, nor a first"), "no *** chance, nor a ***");
        assert_eq!(run_context.token.hide("a text that is cut: seco"), "a text that is cut: ***");
    }
}
