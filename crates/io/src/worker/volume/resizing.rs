//! A spread volume grows to what a policy says that says more than it has.

use std::rc::Rc;
use std::time::Duration;

use crate::domain::Domain;

/// Between two looks whether the policy says more.
const LOOK: Duration = Duration::from_secs(1);

/// Has a volume grow once the policy says more than before, and more than it has. What stands in
/// the way is said once. A size that was reached, or was said when the volume was opened, is no
/// reason to grow any more: an operator may have shrunk it since.
pub(super) async fn keep_up(domain: Rc<Domain>) {
    let (mut known, mut said) = (domain.spread_sizes().map_or(0, |(wanted, _)| wanted), None);
    loop {
        tokio::time::sleep(LOOK).await;
        let Some((wanted, has)) = domain.spread_sizes() else { continue };
        if wanted == known || wanted <= has {
            known = wanted;
            continue;
        }
        let why = domain.resize_spread(wanted).await.err().map(|error| error.to_string());
        match &why {
            None => known = wanted,
            Some(why) if said.as_ref() != Some(why) => {
                tracing::error!(volume = domain.name(), why, "the volume does not grow");
            }
            Some(_) => {}
        }
        said = why;
    }
}
