//! How often a function may be called, across all sessions of a tenant (GCRA).
//!
//! Answers to: the bridge. Must not: know a name in more than one spelling; the key is the declared name.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use ringfence_policy::Rate;
use ringfence_types::Tenant;

/// The most pairs of tenant and function that are remembered.
const MOST: usize = 100_000;

type Key = (Tenant, String, u32, u64);

/// The rate limits of one engine. Cheap to share.
#[derive(Debug, Clone, Default)]
pub struct Rates(Arc<Mutex<HashMap<Key, Arc<DefaultDirectRateLimiter>>>>);

impl Rates {
    /// Takes one call out of the rate. `false`: it is used up for now.
    pub fn take(&self, tenant: &Tenant, function: &str, rate: Rate) -> bool {
        self.limiter(tenant, function, rate).is_none_or(|limiter| limiter.check().is_ok())
    }

    /// `None` for a rate of nothing per no time, which the policy's parser refuses.
    fn limiter(&self, tenant: &Tenant, function: &str, rate: Rate) -> Option<Arc<DefaultDirectRateLimiter>> {
        let key = (tenant.clone(), function.to_owned(), rate.count, rate.per.millis());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limiter) = known.get(&key) {
            return Some(Arc::clone(limiter));
        }
        if known.len() >= MOST {
            // A full store forgets the limiters that are at rest: a fresh one would answer the same.
            known.retain(|_, limiter| limiter.check().is_err());
        }
        let limiter = Arc::new(RateLimiter::direct(quota(rate)?));
        known.insert(key, Arc::clone(&limiter));
        Some(limiter)
    }
}

fn quota(rate: Rate) -> Option<Quota> {
    let count = NonZeroU32::new(rate.count)?;
    let each = Duration::from_millis(rate.per.millis()) / count.get();
    Some(Quota::with_period(each)?.allow_burst(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_types::Span;

    #[test]
    fn a_rate_is_kept_by_tenant_and_function() {
        let rates = Rates::default();
        let rate = Rate { count: 2, per: Span::from_secs(3600) };
        let other: Tenant = "other".parse().expect("a plain name");
        let take = |tenant: &Tenant, function: &str| rates.take(tenant, function, rate);
        assert_eq!([(); 3].map(|()| take(&Tenant::local(), "f")), [true, true, false]);
        assert!(take(&other, "f"));
        assert!(take(&Tenant::local(), "g"));
    }
}
