//! A spread volume grows to what a policy says that says more than it has.

use std::rc::Rc;
use std::time::Duration;

use crate::domain::Domain;

/// Between two looks whether the policy says more.
const LOOK: Duration = Duration::from_secs(1);

/// Has a volume grow to what the policy says, whenever that is more than it has. What stands in the
/// way is said once.
pub(super) async fn keep_up(domain: Rc<Domain>) {
    let mut said = None;
    loop {
        tokio::time::sleep(LOOK).await;
        let Some((wanted, has)) = domain.spread_sizes() else { continue };
        if wanted <= has {
            continue;
        }
        let why = domain.resize_spread(wanted).await.err().map(|error| error.to_string());
        if let Some(why) = &why
            && said.as_ref() != Some(why)
        {
            tracing::error!(volume = domain.name(), why, "the volume does not grow");
        }
        said = why;
    }
}
