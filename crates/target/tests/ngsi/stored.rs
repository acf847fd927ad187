//! Entities in document stores: alone, behind a router, shared by several brokers, away for a while.

use super::*;
use plimsoll_target::documents::router::{self, RouterTarget};
use plimsoll_target::documents::{self, DocumentTarget, Work};
use plimsoll_target::ngsi::StoreSettings;

/// A store or a router in a thread; dropped, it ends.
struct Documents {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Documents {
    /// A store at a port; 0 for a free one.
    fn start(port: u16) -> Documents {
        let (host, none) = (Ipv4Addr::LOCALHOST.into(), Duration::ZERO);
        let settings = documents::Settings { host, port, read: none, write: none, work: Work::Wait };
        let target = DocumentTarget::bind(&settings).unwrap();
        Documents::serve(target.address().unwrap(), move |stop| target.run(stop).unwrap())
    }

    fn router(stores: &[Documents]) -> Documents {
        let shards = stores.iter().map(|store| store.address).collect();
        let settings = router::Settings { host: Ipv4Addr::LOCALHOST.into(), port: 0, shards };
        let target = RouterTarget::bind(&settings).unwrap();
        Documents::serve(target.address().unwrap(), move |stop| target.run(stop).unwrap())
    }

    fn serve(address: SocketAddr, serve: impl FnOnce(&AtomicBool) + Send + 'static) -> Documents {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::spawn(move || serve(&seen));
        Documents { address, stop, thread: Some(thread) }
    }

    /// The settings of a broker before it.
    fn broker(&self) -> Settings {
        stored_at(self.address)
    }
}

impl Drop for Documents {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))), "the store failed");
    }
}

fn stored_at(address: SocketAddr) -> Settings {
    Settings { store: Some(StoreSettings { address, connections: 2 }), ..settings() }
}

/// What holds in memory holds before one store, and before a router with two.
fn holds_with_stores(behaviour: fn(&Settings)) {
    behaviour(&Documents::start(0).broker());
    let stores = [Documents::start(0), Documents::start(0)];
    behaviour(&Documents::router(&stores).broker());
}

#[test]
fn entities_live_as_in_memory() {
    holds_with_stores(live);
}

#[test]
fn entities_are_found_as_in_memory() {
    holds_with_stores(are_found);
}

#[test]
fn subscriptions_hear_what_they_hear_in_memory() {
    holds_with_stores(are_told);
}

#[test]
fn tenants_and_paths_are_apart_as_in_memory() {
    holds_with_stores(are_apart);
}

#[test]
fn brokers_before_one_store_see_each_others_entities() {
    let stores = [Documents::start(0), Documents::start(0)];
    let router = Documents::router(&stores);
    let brokers = [Running::start(&router.broker()), Running::start(&router.broker())];
    let [mut one, mut other] = brokers.each_ref().map(Running::client);
    one.does("POST", "/v2/entities", road("r1", 1.0), 201);
    other.fails("POST", "/v2/entities", road("r1", 1.0), 422, "Unprocessable");
    other.does("PATCH", "/v2/entities/r1/attrs?type=Road", speed(2.0), 204);
    assert_eq!(one.does("GET", "/v2/entities/r1/attrs/speed/value", None, 200).body, 2.0);
    // Each writes an attribute of its own, all at once.
    let writers: Vec<_> = (0..4)
        .map(|number| {
            let mut client = brokers[number % 2].client();
            std::thread::spawn(move || {
                for value in 1..=25 {
                    let written = json!({ (format!("a{number}")): { "value": value } });
                    client.does("POST", "/v2/entities/r1/attrs?type=Road", Some(written), 204);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let found = one.does("GET", "/v2/entities/r1?options=keyValues", None, 200).body;
    assert_eq!(
        found,
        json!({ "id": "r1", "type": "Road", "a0": 25, "a1": 25, "a2": 25, "a3": 25, "speed": 2.0 })
    );
    one.does("DELETE", "/v2/entities/r1", None, 204);
    other.fails("GET", "/v2/entities/r1", None, 404, "NotFound");
}

#[test]
fn brokers_before_one_store_share_subscriptions() {
    let stores = [Documents::start(0), Documents::start(0)];
    let router = Documents::router(&stores);
    let brokers = [Running::start(&router.broker()), Running::start(&router.broker())];
    let [mut one, mut other] = brokers.each_ref().map(Running::client);
    let (address, notifications) = listener();
    other.does("POST", "/v2/entities", road("r1", 1.0), 201);
    let subscription = json!({
        "subject": { "entities": [{ "id": "r1" }] },
        "notification": { "http": { "url": format!("{address}/told") } },
    });
    let path = "/v2/subscriptions?options=skipInitialNotification";
    let ids: Vec<String> = [&mut one, &mut other]
        .map(|client| client.does("POST", path, Some(subscription.clone()), 201).location)
        .into();
    assert_ne!(ids[0], ids[1]);
    for client in [&mut one, &mut other] {
        assert_eq!(client.does("GET", "/v2/subscriptions", None, 200).body.as_array().unwrap().len(), 2);
    }
    // Both are told of what is written at either.
    for (client, value) in [(&mut one, 2.0), (&mut other, 3.0)] {
        client.does("PATCH", "/v2/entities/r1/attrs", speed(value), 204);
        for _ in &ids {
            let (.., body) = notifications.recv_timeout(WAIT).unwrap();
            assert_eq!(body["data"][0]["speed"]["value"], value);
        }
    }
    // What one deletes or switches off is so for the other one.
    other.does("DELETE", &ids[0], None, 204);
    one.fails("GET", &ids[0], None, 404, "NotFound");
    one.does("PATCH", &ids[1], Some(json!({ "status": "inactive" })), 204);
    assert_eq!(other.does("GET", &ids[1], None, 200).body["status"], "inactive");
    other.does("PATCH", "/v2/entities/r1/attrs", speed(4.0), 204);
    assert!(notifications.recv_timeout(Duration::from_millis(200)).is_err());
}

#[test]
fn names_that_a_store_would_misread_stay_as_they_are() {
    let store = Documents::start(0);
    let target = Running::start(&store.broker());
    let mut client = target.client();
    client.headers = "Fiware-ServicePath: /a/b\r\n".into();
    let names = ["a.b", "a..b", ".", "$set", "$", "%2e", "100%", "_id", "attrs", "ä"];
    let mut entity = json!({ "id": "road.1$%[\\", "type": "$type.of%" });
    for name in names {
        entity[name] = json!({ "value": name });
    }
    client.does("POST", "/v2/entities", Some(entity), 201);
    let update = |action: &str, attribute: Value| {
        let entity = json!({ "id": "road.1$%[\\", "type": "$type.of%", "a.b": attribute });
        Some(json!({ "actionType": action, "entities": [entity] }))
    };
    client.does("POST", "/v2/op/update", update("update", json!({ "value": 7 })), 204);
    let path = "/v2/entities/road.1%24%25%5b%5c?options=keyValues";
    let found = client.does("GET", path, None, 200).body;
    assert_eq!(found["type"], "$type.of%");
    assert_eq!(found["a.b"], 7);
    for name in &names[1..] {
        assert_eq!(found[name], *name, "{found}");
    }
    client.does("POST", "/v2/op/update", update("delete", json!({})), 204);
    let found = client.does("GET", path, None, 200).body;
    assert_eq!(found.as_object().unwrap().len(), 2 + names.len() - 1, "{found}");
    // Nobody has such an id, which is asked for all the same.
    client.fails("GET", "/v2/entities/%00%22%5d?type=%24gt", None, 404, "NotFound");
}

#[test]
fn a_store_that_is_away_costs_its_requests_and_nothing_else() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let target = Running::start(&stored_at(free));
    let mut client = target.client();
    let is_away = |client: &mut Client| {
        let said = client.does("GET", "/v2/entities/r1", None, 500);
        assert_eq!(said.body["error"], "InternalServerError", "{said:?}");
        assert!(said.body["description"].as_str().unwrap().contains(&free.to_string()), "{said:?}");
    };
    is_away(&mut client);
    client.does("GET", "/v2/subscriptions", None, 200);
    let store = Documents::start(free.port());
    client.does("POST", "/v2/entities", road("r1", 1.0), 201);
    drop(store);
    is_away(&mut client);
    let store = Documents::start(free.port());
    client.does("POST", "/v2/entities", road("r1", 1.0), 201);
    drop(store);
    // The connection that was kept is made again, once and in silence.
    let _store = Documents::start(free.port());
    client.does("POST", "/v2/entities", road("r1", 1.0), 201);
}

#[test]
fn what_is_no_store_is_an_error_and_not_an_end() {
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = other.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in other.incoming().map_while(Result::ok) {
            // A length that no message has.
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let target = Running::start(&stored_at(address));
    let mut client = target.client();
    client.fails("GET", "/v2/entities/r1", None, 500, "InternalServerError");
    client.fails("POST", "/v2/entities", road("r1", 1.0), 500, "InternalServerError");
}
