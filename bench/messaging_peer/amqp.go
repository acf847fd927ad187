package main

import (
	"context"
	"fmt"

	"github.com/rabbitmq/amqp091-go"
)

// AMQP 0-9-1 with publisher confirms.
type amqpPlatform struct {
	address, topic string
	clients        []*amqp091.Connection
}

func openAMQP(address, topic string) (protocol, error) {
	return &amqpPlatform{address: address, topic: topic}, nil
}

func (platform *amqpPlatform) channel() (*amqp091.Channel, error) {
	client, err := amqp091.Dial(platform.address)
	if err != nil {
		return nil, err
	}
	platform.clients = append(platform.clients, client)
	return client.Channel()
}

func (platform *amqpPlatform) subscribe(came func()) error {
	channel, err := platform.channel()
	if err != nil {
		return err
	}
	queue, err := channel.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		return err
	}
	if err := channel.QueueBind(queue.Name, platform.topic+".#", "amq.topic", false, nil); err != nil {
		return err
	}
	deliveries, err := channel.Consume(queue.Name, "", false, true, false, false, nil)
	if err != nil {
		return err
	}
	go func() {
		for delivery := range deliveries {
			came()
			_ = delivery.Ack(false)
		}
	}()
	return nil
}

func (platform *amqpPlatform) device() (func([]byte, func(error)) error, error) {
	channel, err := platform.channel()
	if err != nil {
		return nil, err
	}
	if err := channel.Confirm(false); err != nil {
		return nil, err
	}
	confirmed := channel.NotifyPublish(make(chan amqp091.Confirmation, 65536))
	waiting := make(chan func(error), 65536)
	go func() {
		for confirmation := range confirmed {
			var err error
			if !confirmation.Ack {
				err = fmt.Errorf("refused")
			}
			(<-waiting)(err)
		}
	}()
	key := fmt.Sprintf("%s.%d", platform.topic, len(platform.clients))
	return func(content []byte, done func(error)) error {
		message := amqp091.Publishing{Body: content}
		err := channel.PublishWithContext(context.Background(), "amq.topic", key, false, false, message)
		if err == nil {
			waiting <- done
		}
		return err
	}, nil
}

func (platform *amqpPlatform) close() {
	for _, client := range platform.clients {
		_ = client.Close()
	}
}
