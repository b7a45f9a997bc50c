//! Which worker has a slot, and when that one is lost.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_worker_is_lost_when_it_is_silent_for_two_leases() {
    for is_awaited in [true, false] {
        let tied = tied_as(false, is_awaited);
        let begun = Instant::now();
        if !is_awaited {
            beat(&tied).await;
        }
        assert!(matches!(tied.near.await.unwrap(), Ended::Lost(None)));
        assert_eq!(begun.elapsed(), LEASE * 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_did_not_wait_for_the_answer_is_no_attempt() {
    let tied = tied_as(false, false);
    assert!(matches!(tied.near.await.unwrap(), Ended::NeverBegan(None)));
}

#[tokio::test(start_paused = true)]
async fn what_never_comes_is_not_waited_for() {
    let gap = tied();
    gap.arriving.send(frame(2, SLOT, "two")).await.unwrap();
    assert!(matches!(gap.near.await.unwrap(), Ended::Lost(None)));
    // The one outcome there will be stands.
    let cut = tied();
    cut.arriving.send(FromFar::End(end(1, 3))).await.unwrap();
    assert!(matches!(cut.near.await.unwrap(), Ended::Over(_)));
}

#[tokio::test(start_paused = true)]
async fn what_never_comes_is_waited_for_a_lease_however_much_comes_after_it() {
    let gap = tied();
    let begun = Instant::now();
    for seq in 3..6 {
        gap.arriving.send(frame(seq, SLOT, "later")).await.unwrap();
        tokio::task::yield_now().await;
        tokio::time::advance(LEASE / 4).await;
    }
    assert!(matches!(gap.near.await.unwrap(), Ended::Lost(None)));
    assert_eq!(begun.elapsed(), LEASE);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_cannot_be_understood_is_lost_and_no_other_one() {
    for attempt in [Some(1), None] {
        let unreadable = tied();
        let begun = Instant::now();
        for attempt in [Some(2), attempt] {
            unreadable.arriving.send(FromFar::Unreadable { attempt }).await.unwrap();
        }
        assert!(matches!(unreadable.near.await.unwrap(), Ended::Lost(None)));
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
    let other = tied();
    other.arriving.send(FromFar::Unreadable { attempt: Some(2) }).await.unwrap();
    tokio::task::yield_now().await;
    assert!(!other.near.is_finished());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_an_end_is_over_if_it_is_this_one() {
    let no_end = |attempt| FromFar::NoEnd { attempt, why: "no room".into() };
    for attempt in [Some(1), None] {
        let tied = tied();
        let begun = Instant::now();
        // That of another attempt says nothing of this one.
        for from in [no_end(Some(2)), no_end(attempt)] {
            tied.arriving.send(from).await.unwrap();
        }
        let Ended::Broken(why) = tied.near.await.unwrap() else { panic!("it is over") };
        assert_eq!((&*why, begun.elapsed()), ("no room", Duration::ZERO));
    }
    let other = tied();
    other.arriving.send(no_end(Some(2))).await.unwrap();
    assert!(matches!(other.near.await.unwrap(), Ended::Lost(None)));
    // An outcome stands that waits for what was said before.
    let ended = tied();
    for from in [FromFar::End(end(1, 3)), no_end(None)] {
        ended.arriving.send(from).await.unwrap();
    }
    assert!(matches!(ended.near.await.unwrap(), Ended::Over(_)));
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_is_to_stop_is_not_waited_for_without_an_end() {
    let tied = tied();
    tied.near_cancel.cancel();
    assert!(matches!(tied.near.await.unwrap(), Ended::Stopped));
}

#[tokio::test(start_paused = true)]
async fn nobody_is_lost_while_it_is_this_process_that_is_cut_off() {
    let tied = tied();
    tied.is_connected.store(false, Ordering::Relaxed);
    tokio::time::advance(LEASE * 5).await;
    tokio::task::yield_now().await;
    assert!(!tied.near.is_finished());
}

async fn claimed(tied: &Tied, worker: &str) -> oneshot::Receiver<Claimed> {
    claimed_again(tied, worker, None).await
}

/// A worker asks for the slot that had this attempt of it, and tells whether that has ended.
async fn claimed_again(
    tied: &Tied,
    worker: &str,
    had: Option<(u32, bool)>,
) -> oneshot::Receiver<Claimed> {
    let (reply, answer) = oneshot::channel();
    let had = had.map(|(attempt, has_ended)| Had { attempt, has_ended });
    let claimant = Claimant { worker: worker.into(), had, since: Instant::now(), reply };
    tied.arriving.send(FromFar::Claim(claimant)).await.unwrap();
    answer
}

#[tokio::test(start_paused = true)]
async fn a_slot_goes_to_another_worker_only_if_its_own_is_silent() {
    let tied = tied();
    // The stand-in for its grant.
    assert_eq!(claimed(&tied, "first").await.await.unwrap(), Claimed::Over);
    assert_eq!(claimed(&tied, "second").await.await.unwrap(), Claimed::Held);
    beat(&tied).await;
    tokio::task::yield_now().await;
    tokio::time::advance(LEASE).await;
    let _answer = claimed(&tied, "second").await;
    let Ended::Lost(Some(next)) = tied.near.await.unwrap() else { panic!("it is lost") };
    assert_eq!(&*next.worker, "second");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_asks_for_what_it_had_begun_has_dropped_it() {
    // Nothing may have been heard of it.
    let tied = tied_as(false, false);
    // As if its ticket had come twice.
    assert_eq!(claimed(&tied, "first").await.await.unwrap(), Claimed::Over, "it is granted");
    let _answer = claimed_again(&tied, "first", Some((1, false))).await;
    let Ended::Lost(Some(next)) = tied.near.await.unwrap() else { panic!("it is lost") };
    assert_eq!(&*next.worker, "first");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_has_ended_a_slot_is_not_given_it_before_its_end_is_heard() {
    let tied = tied();
    let begun = Instant::now();
    for had in [Some((1, true)), Some((1, true))] {
        let answer = claimed_again(&tied, "first", had).await.await;
        assert_eq!(answer.unwrap(), Claimed::Held);
    }
    // What it had of an earlier attempt says nothing of this one.
    let tied_later = tied_as(false, true);
    let answer = claimed_again(&tied_later, "first", Some((0, true))).await.await;
    assert_eq!(answer.unwrap(), Claimed::Over, "it is granted");
    // An end that never comes is not waited for.
    assert!(matches!(tied.near.await.unwrap(), Ended::Lost(None)));
    assert_eq!(begun.elapsed(), LEASE * 2);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_has_come_to_its_outcome_goes_to_nobody() {
    let tied = tied();
    beat(&tied).await;
    tied.arriving.send(FromFar::End(end(1, 3))).await.unwrap();
    let answer = claimed_again(&tied, "first", Some((1, false))).await.await;
    assert_eq!(answer.unwrap(), Claimed::Held);
    tokio::time::advance(LEASE * 3 / 4).await;
    assert_eq!(claimed(&tied, "second").await.await.unwrap(), Claimed::Held);
    assert!(matches!(tied.near.await.unwrap(), Ended::Over(_)));
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_where_nobody_hears_it_any_more_is_dropped() {
    let (sender, said) = mpsc::channel(LINE_CAP);
    let (_to, told) = mpsc::channel(1);
    let (frames, mut going) = mpsc::channel::<Frame>(1);
    let (over, is_over) = oneshot::channel();
    let heard = Arc::new(Heard::new(Arc::<Notify>::default()));
    let far = Far::new(&seat(SLOT, CancellationToken::new()), (1, false), heard);
    let far = tokio::spawn(far.relay(Ties { said, told, frames, over: is_over }));
    let (line, asks) = (Line::new(SLOT, sender.clone()), Line::new(SLOT, sender));
    let asking = tokio::spawn(async move { asks.may_request(Some(1)).await });
    going.recv().await.unwrap();
    drop(going);
    assert_eq!(asking.await.unwrap(), None);
    assert_eq!(line.may_call(2).await, None);
    // More than would wait anywhere.
    for _ in 0..1_000 {
        line.tell(notice("and on")).await;
    }
    over.send(()).unwrap();
    assert_eq!(far.await.unwrap().words, []);
}
