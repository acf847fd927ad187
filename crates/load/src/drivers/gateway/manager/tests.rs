//! The manager before gateways that behave, and others.

use super::*;

fn connect(manager: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(manager).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn ask(stream: &mut TcpStream, call: &Value) -> Value {
    writeln!(stream, "{call}").unwrap();
    let mut buffer = [0; 1024];
    let read = stream.read(&mut buffer).unwrap();
    serde_json::from_slice(&buffer[..read]).unwrap()
}

fn manager(expected: &[(&str, &str)]) -> (Manager, SocketAddr) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let expected = expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let run = ManagedRun { tag: 0x4d, configuration: expected, polled: 2, shards: 1, is_answered: false };
    (Manager::start(free, run, Clock::start()).unwrap(), free)
}

#[test]
fn a_configuration_that_differs_is_refused_with_both_values() {
    let (manager, address) =
        manager(&[("POOL_SIZE", "10"), ("CPU_INTENSITY", "0.10"), ("DISPATCHER", "serial")]);
    let mut stream = connect(address);
    let shown = json!({"POOL_SIZE": 3, "CPU_INTENSITY": 0.1, "SOMETHING": 1});
    let answer = ask(&mut stream, &json!({"name": "verify_gateway", "args": [shown, "127.0.0.1:9"]}));
    assert_eq!(answer["error"]["name"], "ConfigurationError");
    assert_eq!(answer["error"]["args"], json!(["POOL_SIZE: the gateway has 3, the scenario 10"]));
    assert!(matches!(manager.phase(), Phase::Failed(words) if words.contains("POOL_SIZE")));
    let answer = ask(&mut stream, &json!({"name": "verify_gateway", "args": [{}, 7]}));
    assert_eq!(answer["error"]["name"], "ValueError");
    assert_eq!(ask(&mut stream, &json!({"name": "reboot"}))["error"]["name"], "AttributeError");
}

/// Verifies a gateway whose interface is there, and gives the connection on which the manager asks it.
fn verify(address: SocketAddr, interface: &TcpListener) -> TcpStream {
    let place = interface.local_addr().unwrap().to_string();
    let call = json!({"name": "verify_gateway", "args": [{}, place]});
    assert_eq!(ask(&mut connect(address), &call)["result"], true);
    interface.accept().unwrap().0
}

/// Answers the manager until it has started the test; how often it was asked for the time.
fn boot(caller: &mut TcpStream) -> usize {
    for asked in 0.. {
        let mut buffer = [0; 1024];
        let read = caller.read(&mut buffer).unwrap();
        let call: Value = serde_json::from_slice(&buffer[..read]).unwrap();
        let starts = call["name"] == "start_test";
        let result = if starts { json!(true) } else { json!(1_000.5) };
        caller.write_all(&calls::result(&result)).unwrap();
        if starts {
            return asked;
        }
    }
    unreachable!("the loop has no end of its own")
}

fn await_phase(manager: &Manager, phase: &Phase) {
    let begin = Instant::now();
    while manager.phase() != *phase {
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?} and not {phase:?}", manager.phase());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_gateway_is_led_through_its_bootup_and_may_come_again() {
    let (manager, address) = manager(&[]);
    assert_eq!(manager.begun(Nanos::ZERO), None);
    assert!(manager.begun(BOOTUP).unwrap().unwrap_err().contains("verify_gateway"));
    manager.listens(0, 5000);
    manager.listens(1, 5001);
    let interface = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut caller = verify(address, &interface);
    assert!(manager.begun(BOOTUP).unwrap().unwrap_err().contains("clock"));
    let hostnames = ask(&mut connect(address), &json!({"name": "hostnames", "args": []}));
    assert_eq!(hostnames["result"], json!([5000, 5001]));
    assert_eq!(boot(&mut caller), READINGS);
    await_phase(&manager, &Phase::Started);
    assert_eq!(manager.begun(BOOTUP), Some(Ok(())));
    let log = UdpSocket::bind("127.0.0.1:0").unwrap();
    let lines = b"INFO:1000.7:h:EVENT_LIFECYCLE_DONE:004d-1-0\nERROR:1:gateway:device 0: gone\n";
    log.send_to(lines, address).unwrap();
    let mut lives = Vec::new();
    while lives.is_empty() {
        manager.take(0, &mut lives);
    }
    assert_eq!((lives[0].device, lives[0].sequence, lives[0].retrieved), (1, 0, None));
    while manager.take_incidents().is_empty() {}
    assert_eq!(manager.clocks().readings, READINGS);

    // Another one is refused while this one is there, and no longer.
    let another = json!({"name": "verify_gateway", "args": [{}, "127.0.0.1:9"]});
    assert_eq!(ask(&mut connect(address), &another)["error"]["name"], "RuntimeError");
    drop(caller);
    await_phase(&manager, &Phase::Gone);
    assert_eq!(boot(&mut verify(address, &interface)), READINGS);
}

#[test]
fn an_answer_without_end_holds_neither_the_test_nor_its_end() {
    let (manager, address) = manager(&[]);
    manager.listens(0, 5000);
    manager.listens(1, 5001);
    let interface = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut caller = verify(address, &interface);
    let dripping = thread::spawn(move || {
        while caller.write_all(b" ").is_ok() {
            thread::sleep(LOOK);
        }
    });
    let begin = Instant::now();
    while !matches!(manager.phase(), Phase::Failed(_)) {
        assert!(begin.elapsed() < 4 * PATIENCE, "{:?}", manager.phase());
        thread::sleep(LOOK);
    }
    assert!(manager.begun(Nanos::ZERO).unwrap().unwrap_err().contains("no answer within 5s"));
    drop(manager);
    dripping.join().unwrap();
}

#[test]
fn who_says_nothing_takes_no_more_than_its_place() {
    let (_manager, address) = manager(&[]);
    let mut silent: Vec<TcpStream> = (0..CALLERS + 8).map(|_| connect(address)).collect();
    let ends = |stream: &mut TcpStream| matches!(stream.read(&mut [0]), Ok(0));
    assert!(silent.drain(CALLERS..).all(|mut stream| ends(&mut stream)), "there is no room");
    assert!(silent.iter_mut().all(ends), "they have had their time");
    let answer = ask(&mut connect(address), &json!({"name": "reboot"}));
    assert_eq!(answer["error"]["name"], "AttributeError");
}
