//! Delays of the answers to wrong passwords: after the tenth of a peer a second, and after each further one twice as long.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Mutex as AsyncMutex;

/// How many wrong passwords of a peer delay nothing: people mistype them, and several people can share an address.
const FREE: u32 = 10;

/// The delay after the first wrong password that is not free, and how often it doubles.
const FIRST: Duration = Duration::from_secs(1);
const DOUBLINGS: u32 = 5;

/// How long after its last wrong password a peer is forgotten.
const FORGET: Duration = Duration::from_secs(600);

/// The most peers that are remembered.
const MOST: usize = 10_000;

/// The wrong passwords of peers.
#[derive(Default)]
pub(super) struct Delays(Mutex<HashMap<Option<IpAddr>, Wrong>>);

struct Wrong {
    count: u32,
    last_at: Instant,
    turn: Turn,
}

/// Held by the one check of a delayed peer, for as long as its answer is delayed.
pub(super) type Turn = Arc<AsyncMutex<()>>;

impl Wrong {
    fn delay(&self) -> Duration {
        match self.count.checked_sub(FREE) {
            Some(over) => FIRST * 2_u32.pow(over.min(DOUBLINGS)),
            None => Duration::ZERO,
        }
    }
}

impl Delays {
    /// Counts a wrong password. Returns the delay of its answer.
    pub(super) fn count(&self, peer: Option<IpAddr>) -> Duration {
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.len() >= MOST {
            peers.retain(|_, wrong| wrong.last_at.elapsed() < FORGET);
        }
        if peers.len() >= MOST {
            // That many peers at once are one attacker. The number of checks at once still bounds them.
            peers.clear();
        }
        let now = Instant::now();
        let wrong = peers.entry(network(peer)).or_insert(Wrong { count: 0, last_at: now, turn: Turn::default() });
        if wrong.last_at.elapsed() >= FORGET {
            wrong.count = 0;
        }
        wrong.count = wrong.count.saturating_add(1);
        wrong.last_at = now;
        wrong.delay()
    }

    /// The delay of a peer's next wrong answer at least, and the turn for which its checks wait. `None`: it is not delayed.
    pub(super) fn turn(&self, peer: Option<IpAddr>) -> Option<(Duration, Turn)> {
        let peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wrong = peers.get(&network(peer)).filter(|wrong| wrong.last_at.elapsed() < FORGET)?;
        let delay = wrong.delay();
        (!delay.is_zero()).then(|| (delay, Arc::clone(&wrong.turn)))
    }
}

/// The part of an address that one owner has: of IPv6 the first 64 bits.
fn network(peer: Option<IpAddr>) -> Option<IpAddr> {
    Some(match peer?.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Option<IpAddr> {
        Some(address.parse().unwrap())
    }

    #[test]
    fn each_wrong_password_after_the_tenth_doubles_the_delay_of_its_peer() {
        let (delays, one) = (Delays::default(), peer("192.0.2.1"));
        for _ in 1..FREE {
            assert_eq!(delays.count(one), Duration::ZERO);
        }
        let counted: Vec<_> = (0..8).map(|_| delays.count(one).as_secs()).collect();
        assert_eq!(counted, [1, 2, 4, 8, 16, 32, 32, 32]);
        let others = [delays.count(peer("192.0.2.2")), delays.count(None)];
        assert_eq!(others, [Duration::ZERO; 2], "others are not delayed");
    }

    #[test]
    fn the_addresses_of_one_owner_are_one_peer() {
        let delays = Delays::default();
        for host in 1..=FREE {
            delays.count(peer(&format!("2001:db8:0:1::{host}")));
        }
        assert!(!delays.count(peer("2001:db8:0:1:ffff::1")).is_zero());
        assert!(delays.count(peer("2001:db8:0:2::1")).is_zero());
        for _ in 0..FREE {
            delays.count(peer("::ffff:192.0.2.1"));
        }
        assert!(!delays.count(peer("192.0.2.1")).is_zero(), "an address of IPv4 in the form of IPv6");
    }

    #[test]
    fn a_peer_is_forgotten_and_few_are_remembered() {
        let (delays, one) = (Delays::default(), peer("192.0.2.1"));
        for _ in 0..FREE {
            delays.count(one);
        }
        delays.0.lock().unwrap().get_mut(&one).unwrap().last_at -= FORGET;
        assert_eq!(delays.count(one), Duration::ZERO);
        for number in 0..30_000_u32 {
            delays.count(Some(std::net::Ipv4Addr::from_bits(number).into()));
        }
        assert!(delays.0.lock().unwrap().len() <= MOST);
    }
}
