package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Kafka, where the leader acknowledges when all replicas have the record.
type kafkaPlatform struct {
	address, topic string
	clients        []*kgo.Client
}

// As many partitions as Plimsoll's topics have.
const partitions = 8

func openKafka(address, topic string) (protocol, error) {
	platform := &kafkaPlatform{address: address, topic: topic}
	client, err := platform.client()
	if err != nil {
		return nil, err
	}
	_, err = kadm.NewClient(client).CreateTopic(context.Background(), partitions, 1, nil, topic)
	return platform, err
}

func (platform *kafkaPlatform) client(options ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(platform.address))...)
	if err == nil {
		platform.clients = append(platform.clients, client)
	}
	return client, err
}

func (platform *kafkaPlatform) subscribe(came func()) error {
	client, err := platform.client(kgo.ConsumeTopics(platform.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	if err != nil {
		return err
	}
	go func() {
		for {
			fetches := client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachRecord(func(*kgo.Record) { came() })
		}
	}()
	return nil
}

func (platform *kafkaPlatform) device() (func([]byte, func(error)) error, error) {
	options := []kgo.Opt{kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5), kgo.ProducerBatchCompression(kgo.NoCompression())}
	client, err := platform.client(options...)
	if err != nil {
		return nil, err
	}
	key := []byte(fmt.Sprint(len(platform.clients)))
	return func(content []byte, done func(error)) error {
		record := &kgo.Record{Topic: platform.topic, Key: key, Value: content}
		client.Produce(context.Background(), record, func(_ *kgo.Record, err error) { done(err) })
		return nil
	}, nil
}

func (platform *kafkaPlatform) close() {
	_, _ = kadm.NewClient(platform.clients[0]).DeleteTopics(context.Background(), platform.topic)
	for _, client := range platform.clients {
		client.Close()
	}
}
