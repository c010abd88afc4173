//! FLUSH: everything acknowledged before it is durable behind it.

use crate::drive::Drive;
use crate::error::StoreError;
use crate::rules::Rule;
use crate::store::Store;

impl<D: Drive> Store<D> {
    /// Makes durable all writes that were acknowledged before this call, on all volumes.
    ///
    /// # Errors
    /// [`StoreError::Halted`] if the drives cannot do it.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.check_running()?;
        let (target, moved_target, work_blocks) = {
            let state = self.state.borrow();
            (state.applied, state.moved_applied, state.work.applied_blocks)
        };
        let failures = if self.state.borrow().rules.hold(Rule::FlushAllTouched) {
            self.chain.flush(|_| true).await
        } else {
            self.chain.flush(|drive| self.state.borrow().space.is_tail(drive)).await
        };
        self.fail_drives(failures).await;
        self.check_running()?;
        let mut state = self.state.borrow_mut();
        state.durable = state.durable.max(target);
        state.moved_durable = state.moved_durable.max(moved_target);
        state.work.settle(work_blocks);
        Ok(())
    }
}
