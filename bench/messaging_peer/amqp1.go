package main

import (
	"context"
	"fmt"

	"github.com/Azure/go-amqp"
)

// AMQP 1.0 at RabbitMQ before version 4, whose topics begin with `/topic/`.
type amqp1Platform struct {
	address, topic string
	clients        []*amqp.Conn
}

func openAMQP1(address, topic string) (protocol, error) {
	return &amqp1Platform{address: address, topic: topic}, nil
}

func (platform *amqp1Platform) session() (*amqp.Session, error) {
	client, err := amqp.Dial(context.Background(), platform.address, nil)
	if err != nil {
		return nil, err
	}
	platform.clients = append(platform.clients, client)
	return client.NewSession(context.Background(), nil)
}

func (platform *amqp1Platform) subscribe(came func()) error {
	session, err := platform.session()
	if err != nil {
		return err
	}
	options := &amqp.ReceiverOptions{Credit: 1000}
	receiver, err := session.NewReceiver(context.Background(), "/topic/"+platform.topic+".#", options)
	if err != nil {
		return err
	}
	go func() {
		for {
			message, err := receiver.Receive(context.Background(), nil)
			if err != nil {
				return
			}
			came()
			_ = receiver.AcceptMessage(context.Background(), message)
		}
	}()
	return nil
}

func (platform *amqp1Platform) device() (func([]byte, func(error)) error, error) {
	session, err := platform.session()
	if err != nil {
		return nil, err
	}
	target := fmt.Sprintf("/topic/%s.%d", platform.topic, len(platform.clients))
	sender, err := session.NewSender(context.Background(), target, nil)
	if err != nil {
		return nil, err
	}
	waiting := make(chan amqp.SendReceipt, 65536)
	dones := make(chan func(error), 65536)
	go func() {
		for receipt := range waiting {
			_, err := receipt.Wait(context.Background())
			(<-dones)(err)
		}
	}()
	return func(content []byte, done func(error)) error {
		receipt, err := sender.SendWithReceipt(context.Background(), amqp.NewMessage(content), nil)
		if err == nil {
			dones <- done
			waiting <- receipt
		}
		return err
	}, nil
}

func (platform *amqp1Platform) close() {
	for _, client := range platform.clients {
		_ = client.Close()
	}
}
