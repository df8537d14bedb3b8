//! The streams of one connection that are not over. Their numbers go up by two, so that the table
//! is a queue: who has been there longest stands in front.

use std::collections::VecDeque;

/// What is known of one stream.
pub(crate) struct Stream<T> {
    /// What the caller keeps of it; nothing once it waits no longer.
    pub(crate) call: Option<T>,
    /// Bytes that may still be sent on it.
    pub(crate) window: i64,
    /// Bytes that came on it, and for which no room has been made again.
    pub(crate) received: u32,
}

/// Open streams.
pub(crate) struct Streams<T> {
    slots: VecDeque<Option<Stream<T>>>,
    /// The number of the stream in front.
    first: u32,
    open: usize,
    awaited: usize,
}

impl<T> Streams<T> {
    pub(crate) fn new() -> Self {
        Self { slots: VecDeque::new(), first: 1, open: 0, awaited: 0 }
    }

    /// How many are open.
    #[inline]
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// How many of them somebody waits for.
    #[inline]
    pub(crate) fn awaited(&self) -> usize {
        self.awaited
    }

    /// How far the newest is ahead of the oldest: what the table holds.
    #[inline]
    pub(crate) fn spread(&self) -> usize {
        self.slots.len()
    }

    /// The number that the next one gets; none when they are used up.
    #[inline]
    pub(crate) fn next(&self) -> Option<u32> {
        let ahead = u32::try_from(self.slots.len()).ok()?.checked_mul(2)?;
        self.first.checked_add(ahead).filter(|id| *id < 1 << 31)
    }

    /// Opens the next one.
    #[inline]
    pub(crate) fn push(&mut self, call: T, window: i64) {
        self.slots.push_back(Some(Stream { call: Some(call), window, received: 0 }));
        self.open += 1;
        self.awaited += 1;
    }

    #[inline]
    fn at(&self, id: u32) -> Option<usize> {
        usize::try_from(id.checked_sub(self.first)? / 2).ok()
    }

    /// One that is open.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Stream<T>> {
        let at = self.at(id)?;
        self.slots.get_mut(at)?.as_mut()
    }

    /// Nobody waits for one any more, and the peer goes on with it.
    pub(crate) fn forsake(&mut self, id: u32) -> Option<T> {
        let call = self.get_mut(id)?.call.take()?;
        self.awaited -= 1;
        Some(call)
    }

    /// Takes one out: it is over. Nothing, where nobody waited for it.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        let at = self.at(id)?;
        let taken = self.slots.get_mut(at)?.take()?;
        self.open -= 1;
        self.awaited -= usize::from(taken.call.is_some());
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.first += 2;
        }
        taken.call
    }

    /// All that are open, oldest first.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Stream<T>)> {
        let first = self.first;
        let numbers = (first..).step_by(2);
        numbers.zip(&mut self.slots).filter_map(|(id, slot)| Some((id, slot.as_mut()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_end_in_any_order_and_only_once() {
        let mut streams = Streams::new();
        for call in ["a", "b", "c"] {
            streams.push(call, 0);
        }
        assert_eq!((streams.open(), streams.next()), (3, Some(7)));
        assert_eq!(streams.remove(3), Some("b"));
        assert_eq!(streams.remove(3), None, "it is over");
        assert_eq!(streams.spread(), 3, "the oldest is still open");
        assert_eq!(streams.remove(1), Some("a"));
        assert_eq!((streams.open(), streams.spread(), streams.next()), (1, 1, Some(7)));
        assert!(streams.get_mut(1).is_none() && streams.get_mut(7).is_none());
        assert_eq!(streams.get_mut(5).and_then(|stream| stream.call), Some("c"));
        assert_eq!(streams.iter_mut().map(|(id, _)| id).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn one_that_nobody_waits_for_is_open_until_it_ends() {
        let mut streams = Streams::new();
        streams.push("a", 0);
        assert_eq!((streams.forsake(1), streams.forsake(1)), (Some("a"), None));
        assert_eq!((streams.open(), streams.awaited()), (1, 0));
        assert_eq!(streams.remove(1), None);
        assert_eq!((streams.open(), streams.awaited()), (0, 0));
    }

    #[test]
    fn numbers_are_used_up_at_last() {
        let mut streams = Streams { first: (1 << 31) - 3, ..Streams::new() };
        streams.push((), 0);
        assert_eq!(streams.next(), Some((1 << 31) - 1));
        streams.push((), 0);
        assert_eq!(streams.next(), None);
    }
}
