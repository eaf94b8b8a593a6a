//! Labs on a simulated system: processes are stopped, killed and resumed in random order
//! between any two operations.

mod actors;
mod crowd;
mod system;
mod world;

use std::rc::Rc;

use proptest::prelude::*;

use self::actors::take_down;
use self::crowd::{Crowd, NAMES};
use self::world::Kind;

proptest! {
    // 10^6 events in all.
    #![proptest_config(ProptestConfig { cases: 1_000, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_process_is_ever_unseen(choices in prop::collection::vec(0u16.., 1_000)) {
        let mut crowd = Crowd::new();
        for choice in choices {
            crowd.event(choice);
            prop_assert_eq!(crowd.world.borrow().check(), Ok(()));
        }
        crowd.settle();
        for name in NAMES {
            let me = crowd.world.borrow_mut().spawn(Kind::User, 0, 0, 0);
            crowd.acting.insert(me, Box::pin(take_down(Rc::clone(&crowd.world), me, name)));
            crowd.settle();
        }
        let world = crowd.world.borrow();
        prop_assert_eq!(world.check(), Ok(()));
        prop_assert!(world.folders.is_empty(), "left: {:?}", world.folders);
        let left: Vec<_> = world.processes.values().filter(|one| one.kind != Kind::User).collect();
        prop_assert!(left.is_empty(), "left: {left:?}");
    }
}
