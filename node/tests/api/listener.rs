//! The socket: whose it is, and what it does not replace.

use std::os::unix::fs::PermissionsExt;

use mesh_node::api::listener::{ListenError, bind};

use crate::world::World;

#[tokio::test]
async fn the_socket_is_its_owner_s_and_a_served_one_is_not_taken_over() {
    let world = World::new();
    let path = world.path("api.sock");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(matches!(bind(&path), Err(ListenError::Taken { .. })));
    world.client().status().await.unwrap();
}

#[tokio::test]
async fn a_dead_socket_is_replaced_and_a_file_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, file) = (folder.path().join("s"), folder.path().join("f"));
    drop(bind(&socket).unwrap());
    bind(&socket).unwrap();
    std::fs::write(&file, "precious").unwrap();
    assert!(matches!(bind(&file), Err(ListenError::NotASocket { .. })));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[tokio::test]
async fn a_path_the_system_would_cut_is_refused_by_length() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x".repeat(120));
    assert!(matches!(bind(&path), Err(ListenError::PathTooLong { bytes, .. }) if bytes > 107));
}

#[tokio::test]
async fn a_connection_that_says_nothing_does_not_keep_the_node_from_stopping() {
    let world = World::new();
    let _idle = world.connect().await;
    world.client().status().await.unwrap();
    world.stop().await;
}
