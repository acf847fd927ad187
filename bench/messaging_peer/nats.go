package main

import (
	"bytes"
	"fmt"

	"github.com/nats-io/nats.go"
)

// NATS with a stream in memory, which acknowledges.
type natsPlatform struct {
	address, topic string
	clients        []*nats.Conn
	stream         nats.JetStreamContext
}

func openNATS(address, topic string) (protocol, error) {
	platform := &natsPlatform{address: address, topic: topic}
	client, err := platform.connect()
	if err != nil {
		return nil, err
	}
	if platform.stream, err = client.JetStream(); err != nil {
		return nil, err
	}
	config := &nats.StreamConfig{Name: topic, Subjects: []string{topic + ".>"}, Storage: nats.MemoryStorage}
	_, err = platform.stream.AddStream(config)
	return platform, err
}

func (platform *natsPlatform) connect() (*nats.Conn, error) {
	client, err := nats.Connect(platform.address)
	if err == nil {
		platform.clients = append(platform.clients, client)
	}
	return client, err
}

func (platform *natsPlatform) subscribe(came func()) error {
	take := func(message *nats.Msg) {
		came()
		_ = message.Ack()
	}
	options := []nats.SubOpt{nats.ManualAck(), nats.DeliverNew(), nats.MaxAckPending(-1)}
	_, err := platform.stream.Subscribe(platform.topic+".>", take, options...)
	return err
}

func (platform *natsPlatform) device() (func([]byte, func(error)) error, error) {
	client, err := platform.connect()
	if err != nil {
		return nil, err
	}
	// Its acknowledgements come as answers to names below one subscription.
	inbox := nats.NewInbox()
	waiting := make(chan func(error), 65536)
	answered := func(answer *nats.Msg) {
		var err error
		if !bytes.Contains(answer.Data, []byte(`"seq":`)) {
			err = fmt.Errorf("refused: %s", answer.Data)
		}
		(<-waiting)(err)
	}
	if _, err := client.Subscribe(inbox, answered); err != nil {
		return nil, err
	}
	subject := fmt.Sprintf("%s.%d", platform.topic, len(platform.clients))
	return func(content []byte, done func(error)) error {
		err := client.PublishRequest(subject, inbox, content)
		if err == nil {
			waiting <- done
		}
		return err
	}, nil
}

func (platform *natsPlatform) close() {
	_ = platform.stream.DeleteStream(platform.topic)
	for _, client := range platform.clients {
		client.Close()
	}
}
