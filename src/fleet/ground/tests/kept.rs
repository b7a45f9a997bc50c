//! What a worker keeps for the next slot, and when it goes.

use super::*;
use crate::event::SessionId;

#[tokio::test]
async fn many_who_open_the_same_state_have_it_made_once() {
    let fleet = Arc::new(Fleet::new());
    let repo = Repo::with_commit();
    repo.write("a.txt", "two\n");
    let packed = fleet.pack(&repo.root()).await;
    let slots = (0..8).map(|_| {
        let (fleet, packed) = (Arc::clone(&fleet), packed.clone());
        tokio::spawn(async move {
            let lane = fleet.open(&packed).await.unwrap().lane().await.unwrap();
            fs::write(lane.root().join("new"), "new\n").unwrap();
            lane.finish(true).await.unwrap().patch().unwrap()
        })
    });
    for slot in slots.collect::<Vec<_>>() {
        assert!(!slot.await.unwrap().is_empty());
    }
    assert_eq!(fleet.fetched(), 2);
}

#[tokio::test]
async fn a_state_that_was_made_meanwhile_for_a_slot_that_went_away_is_no_error() {
    let (other, fleet, repo) = (Fleet::new(), Fleet::new(), busy());
    let packed = fleet.pack(&repo.root()).await;
    let _made = other.open(&packed).await.unwrap();
    let place = fleet.worker("repositories");
    let fetch = |hash| {
        let there = other.worker("repositories");
        let copied = Command::new("cp").arg("-rT").args([there, place.clone()]).status();
        assert!(copied.unwrap().success());
        let file = state(&packed).files.iter().find(|file| file.hash == hash).unwrap();
        let file = file.path.clone();
        async move { Ok::<_, Infallible>(file) }
    };
    let ground = fleet.grounds.open(&packed.names(), fetch).await.unwrap();
    let lane = ground.lane().await.unwrap();
    assert_eq!(fs::read_to_string(lane.root().join("staged")).unwrap(), "staged 2\n");
    assert_eq!(fs::read_dir(place).unwrap().count(), 2);
}

#[tokio::test]
async fn the_names_that_slots_make_are_there_as_long_as_any_works_with_them() {
    let (fleet, repo) = (Fleet::new(), Repo::with_commit());
    let packed = fleet.pack(&repo.root()).await;
    let ground = fleet.open(&packed).await.unwrap();
    let names = |lane: &Lane| git(lane.root(), &["for-each-ref", "--format=%(refname)"]);
    let (one, two) = (ground.lane().await.unwrap(), ground.lane().await.unwrap());
    let own = names(&one);
    fs::write(one.root().join("a.txt"), "of one run\n").unwrap();
    git(one.root(), &["stash"]);
    git(one.root(), &["checkout", "--quiet", "-b", "fix"]);
    git(one.root(), &["tag", "done"]);
    git(one.root(), &["pack-refs", "--all"]);
    assert_eq!(one.finish(true).await.unwrap(), Finished::Unchanged);
    let three = ground.lane().await.unwrap();
    let all = ["refs/heads/fix", "refs/stash", "refs/tags/done"];
    assert!(all.iter().all(|name| names(&three).contains(name)), "{}", names(&three));
    drop(two);
    assert_eq!(three.finish(false).await.unwrap(), Finished::Unchanged);
    let next = ground.lane().await.unwrap();
    assert_eq!(names(&next), own);
    assert_eq!(git(next.root(), &["stash", "list"]), "");
    drop((next, ground));
    let repository = fleet.worker("repositories").join(&state(&packed).names.base);
    git(&repository, &["tag", "left", own.lines().next().unwrap()]);
    let fleet = fleet.again();
    let lane = fleet.open(&packed).await.unwrap().lane().await.unwrap();
    assert_eq!(names(&lane), own);
}

#[tokio::test]
async fn names_that_cannot_be_removed_keep_no_slot_from_its_work() {
    let (fleet, repo) = (Fleet::new(), Repo::with_commit());
    let packed = fleet.pack(&repo.root()).await;
    let ground = fleet.open(&packed).await.unwrap();
    let lane = ground.lane().await.unwrap();
    git(lane.root(), &["tag", "done"]);
    git(lane.root(), &["pack-refs", "--all"]);
    drop(lane);
    let repository = fleet.worker("repositories").join(&state(&packed).names.base);
    // As a git leaves it that is killed.
    let lock = repository.join("packed-refs.lock");
    fs::write(&lock, "").unwrap();
    let tags = |lane: &Lane| git(lane.root(), &["tag"]);
    let lane = ground.lane().await.unwrap();
    assert_eq!(tags(&lane).trim(), "done");
    drop(lane);
    fs::remove_file(&lock).unwrap();
    let lane = ground.lane().await.unwrap();
    assert_eq!(tags(&lane), "");
}

#[tokio::test]
async fn an_empty_directory_whose_slot_came_to_no_end_goes_with_the_next_one() {
    let (fleet, place) = (Fleet::new(), tempfile::tempdir().unwrap());
    let packed = fleet.pack(place.path()).await;
    let ground = fleet.open(&packed).await.unwrap();
    let lane = ground.lane().await.unwrap();
    let first = lane.root().to_owned();
    fs::write(first.join("left"), "x").unwrap();
    drop(lane);
    let lane = ground.lane().await.unwrap();
    assert!(!first.exists());
    assert_eq!(files(lane.root()), named(&[]));
}

#[tokio::test]
async fn what_a_killed_worker_left_half_made_is_made_again() {
    let (fleet, repo) = (Fleet::new(), Repo::with_commit());
    let packed = fleet.pack(&repo.root()).await;
    let lane = fleet.open(&packed).await.unwrap().lane().await.unwrap();
    // As if nobody had come to an end.
    std::mem::forget(lane);
    let half = fleet.worker("repositories/new-1");
    fs::create_dir_all(half.join("objects")).unwrap();
    let repository = fleet.worker("repositories").join(&state(&packed).names.base);
    fs::remove_dir_all(repository.join("objects")).unwrap();
    let fleet = fleet.again();
    assert!(!half.exists() && !fleet.worker("lanes/1").exists());
    let lane = fleet.open(&packed).await.unwrap().lane().await.unwrap();
    assert_eq!(files(lane.root()), named(&[("a.txt", "one\\n")]));
    assert_eq!(fleet.fetched(), 1);
}

#[tokio::test]
async fn those_that_were_not_used_for_long_make_room_unless_somebody_has_them() {
    let (fleet, repo) = (Fleet::new(), Repo::with_commit());
    let mut packed = Vec::new();
    for number in 0..12 {
        repo.write("a.txt", &format!("{number}\n"));
        packed.push(fleet.pack(&repo.root()).await);
    }
    let held = fleet.open(&packed[0]).await.unwrap().lane().await.unwrap();
    for packed in &packed {
        let lane = fleet.open(packed).await.unwrap().lane().await.unwrap();
        assert_eq!(lane.finish(false).await.unwrap(), Finished::Unchanged);
    }
    let repositories = fs::read_dir(fleet.worker("repositories")).unwrap().count();
    assert!(repositories <= 9, "{repositories}");
    fs::write(held.root().join("a.txt"), "work\n").unwrap();
    assert!(held.finish(true).await.unwrap().patch().is_some());
    fleet.fetched();
    let lane = fleet.open(&packed[1]).await.unwrap().lane().await.unwrap();
    assert_eq!(files(lane.root()), named(&[("a.txt", "1\\n")]));
    assert_eq!(fleet.fetched(), 1);
}

/// A file that slots of a run have left, and the run.
fn left(fleet: &Fleet, number: u32) -> (PathBuf, SessionId) {
    let session = SessionId(format!("01987a4e-7f3c-7000-8000-{number:012}").into());
    let directory = fleet.worker(RUNS).join(&*session.0);
    fs::create_dir_all(&directory).expect("it can be made");
    fs::write(directory.join("text"), "long").expect("it can be written");
    (directory, session)
}

#[tokio::test(start_paused = true)]
async fn what_a_run_has_left_goes_when_none_of_its_slots_was_there_for_long() {
    let fleet = Fleet::new();
    let [(held, first), (idle, second)] = [1, 2].map(|number| left(&fleet, number));
    let nothing = fleet.open(&Packed::Nothing).await.unwrap();
    let holds = [0; 2].map(|_| fleet.grounds.hold_run(&first));
    let lane = nothing.lane().await.unwrap().of_run(fleet.grounds.hold_run(&second));
    assert_eq!(lane.finish(false).await.unwrap(), Finished::Unchanged);
    tokio::time::advance(runs::KEPT_FOR / 2).await;
    fleet.grounds.tidy().await.unwrap();
    assert!(held.exists() && idle.exists());
    // Another slot of it comes and goes.
    drop(fleet.grounds.hold_run(&second));
    let [one, other] = holds;
    drop(one);
    tokio::time::advance(runs::KEPT_FOR / 2).await;
    fleet.grounds.tidy().await.unwrap();
    assert!(held.exists() && idle.exists());
    tokio::time::advance(runs::KEPT_FOR / 2).await;
    fleet.grounds.tidy().await.unwrap();
    assert!(held.exists() && !idle.exists());
    drop(other);
    tokio::time::advance(runs::KEPT_FOR).await;
    fleet.grounds.tidy().await.unwrap();
    assert_eq!(fs::read_dir(fleet.worker(RUNS)).unwrap().count(), 0);
}

#[tokio::test]
async fn what_runs_have_left_goes_where_room_is_wanted_and_with_the_next_worker() {
    let fleet = Fleet::new();
    let [(held, first), (idle, second)] = [1, 2].map(|number| left(&fleet, number));
    let hold = fleet.grounds.hold_run(&first);
    drop(fleet.grounds.hold_run(&second));
    fleet.grounds.shed().await.unwrap();
    assert!(held.exists() && !idle.exists());
    drop(hold);
    let fleet = fleet.again();
    assert_eq!(fs::read_dir(fleet.worker(RUNS)).unwrap().count(), 0);
}
