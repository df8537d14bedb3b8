//! How counters share the partitions.

use crate::events::Partition;

/// Who has a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Which.
    pub partition: Partition,
    /// Whose it is; nothing: free.
    pub counter: Option<String>,
}

/// What a counter changes to have its share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Partitions that become its own.
    pub taken: Vec<Partition>,
    /// Partitions that it lets go of.
    pub left: Vec<Partition>,
}

/// What `counter`, one of those that live, takes or leaves so that each has its share of
/// `holders`: shares differ by one at most, and who has the larger ones goes by the order of
/// `live`, turned by `turn`, so that several servers do not all favour the same. Nothing is taken
/// from one that lives; it leaves what is too much when its own turn comes.
pub fn share(counter: &str, live: &[String], holders: &[Holder], turn: usize) -> Change {
    let Some(rank) = live.iter().position(|name| name == counter) else {
        return Change::default();
    };
    let (all, counters) = (holders.len(), live.len());
    let rank = (rank + turn) % counters;
    let fair = all / counters + usize::from(rank < all % counters);
    let is_mine = |holder: &&Holder| holder.counter.as_deref() == Some(counter);
    let is_free =
        |holder: &&Holder| holder.counter.as_ref().is_none_or(|holder| !live.contains(holder));
    let mine: Vec<_> = holders.iter().filter(is_mine).map(|holder| holder.partition).collect();
    let free = holders.iter().filter(is_free).map(|holder| holder.partition);
    Change {
        taken: free.take(fair.saturating_sub(mine.len())).collect(),
        left: mine.into_iter().skip(fair).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(names: &[Option<&str>]) -> Vec<Holder> {
        let holder = |(partition, name): (Partition, &Option<&str>)| Holder {
            partition,
            counter: name.map(ToOwned::to_owned),
        };
        Partition::all().zip(names).map(holder).collect()
    }

    fn apply(holders: &mut [Holder], counter: &str, live: &[String]) {
        let change = share(counter, live, holders, 0);
        for holder in holders {
            if change.taken.contains(&holder.partition) {
                holder.counter = Some(counter.to_owned());
            } else if change.left.contains(&holder.partition) {
                holder.counter = None;
            }
        }
    }

    #[test]
    fn shares_become_even_whoever_comes_and_goes() {
        let mut holders = held_by(&[None; 16]);
        let crews: [&[&str]; 5] = [&["a"], &["a", "b"], &["a", "b", "c"], &["b"], &["c", "d"]];
        for crew in crews {
            let live: Vec<_> = crew.iter().map(ToString::to_string).collect();
            for _ in 0..2 {
                live.iter().for_each(|name| apply(&mut holders, name, &live));
            }
            let shares: Vec<_> = live
                .iter()
                .map(|name| holders.iter().filter(|h| h.counter.as_ref() == Some(name)).count())
                .collect();
            assert_eq!(shares.iter().sum::<usize>(), 16, "{crew:?}");
            let spread = shares.iter().max().unwrap() - shares.iter().min().unwrap();
            assert!(spread <= 1, "{crew:?}: {shares:?}");
        }
    }

    #[test]
    fn nothing_is_taken_from_one_that_lives() {
        let live = ["a".to_owned(), "b".to_owned()];
        let holders = held_by(&[Some("a"); 16]);
        assert_eq!(share("b", &live, &holders, 0), Change::default());
        assert_eq!(share("a", &live, &holders, 0).left.len(), 8);
    }

    #[test]
    fn whoever_does_not_live_gets_nothing() {
        assert_eq!(share("x", &[], &held_by(&[None; 16]), 0), Change::default());
    }
}
