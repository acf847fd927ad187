// Devices and one subscriber on the usual Go clients of NATS, AMQP and Kafka, beside which Plimsoll is measured:
//
//	messaging-peer PROTOCOL ADDRESS DEVICES RATE SECONDS SIZE
//
// Each device has a connection, and publishes at its own due times without awaiting what it published before. The server
// acknowledges each message; the subscriber acknowledges each delivery where the protocol has that. Two seconds warm up.
// The last line says how many messages were sent, acknowledged and received, and what processor time each took. The line before it
// says how late those of the hold were sent, and the first one which client it is.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// What a protocol does. `publish` calls `done` when the server has acknowledged the message.
type protocol interface {
	subscribe(came func()) error
	device() (publish func(content []byte, done func(error)) error, err error)
	close()
}

func open(name, address string) (protocol, error) {
	topic := fmt.Sprintf("peer-%d", time.Now().UnixNano())
	switch name {
	case "nats":
		return openNATS(address, topic)
	case "amqp":
		return openAMQP(address, topic)
	case "amqp1":
		return openAMQP1(address, topic)
	case "kafka":
		return openKafka(address, topic)
	}
	return nil, fmt.Errorf("no protocol %q: nats, amqp, amqp1 or kafka", name)
}

// The client of a protocol and its version, as the build knows it.
func clientOf(name string) string {
	path := map[string]string{
		"nats":  "github.com/nats-io/nats.go",
		"amqp":  "github.com/rabbitmq/amqp091-go",
		"amqp1": "github.com/Azure/go-amqp",
		"kafka": "github.com/twmb/franz-go",
	}[name]
	if built, ok := debug.ReadBuildInfo(); ok {
		for _, module := range built.Deps {
			if module.Path == path {
				return module.Path[strings.LastIndex(module.Path, "/")+1:] + " " + module.Version
			}
		}
	}
	return path
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func run(arguments []string) error {
	if len(arguments) != 6 {
		return fmt.Errorf("usage: messaging-peer PROTOCOL ADDRESS DEVICES RATE SECONDS SIZE")
	}
	var numbers [4]int
	for at, text := range arguments[2:] {
		number, err := strconv.Atoi(text)
		if err != nil || number < 1 {
			return fmt.Errorf("%q is no number above zero", text)
		}
		numbers[at] = number
	}
	devices, rate, seconds, size := numbers[0], numbers[1], numbers[2], numbers[3]
	platform, err := open(arguments[0], arguments[1])
	if err != nil {
		return err
	}
	defer platform.close()
	var sent, acknowledged, failed, came atomic.Int64
	if err := platform.subscribe(func() { came.Add(1) }); err != nil {
		return err
	}
	done := func(err error) {
		if err != nil {
			failed.Add(1)
		} else {
			acknowledged.Add(1)
		}
	}
	publishers := make([]func([]byte, func(error)) error, devices)
	for at := range publishers {
		if publishers[at], err = platform.device(); err != nil {
			return err
		}
	}
	period := time.Duration(float64(time.Second) * float64(devices) / float64(rate))
	begin := time.Now().Add(100 * time.Millisecond)
	warm := begin.Add(2 * time.Second)
	end := warm.Add(time.Duration(seconds) * time.Second)
	var working sync.WaitGroup
	late := make([][]time.Duration, devices)
	// There is room for the whole hold, so that nothing grows in it.
	room := int(end.Sub(warm)/period) + 1
	for at, publish := range publishers {
		working.Add(1)
		go func() {
			defer working.Done()
			content, own := make([]byte, size), make([]time.Duration, 0, room)
			due := begin.Add(period * time.Duration(at) / time.Duration(devices))
			for ; due.Before(end); due = due.Add(period) {
				time.Sleep(time.Until(due))
				if !due.Before(warm) {
					own = append(own, time.Since(due))
				}
				sent.Add(1)
				if err := publish(content, done); err != nil {
					failed.Add(1)
				}
			}
			late[at] = own
		}()
	}
	time.Sleep(time.Until(warm))
	sentBefore, usedBefore := sent.Load(), processorTime()
	time.Sleep(time.Until(end))
	used := processorTime() - usedBefore
	inHold := sent.Load() - sentBefore
	working.Wait()
	time.Sleep(time.Second)
	fmt.Println(clientOf(arguments[0]))
	all := slices.Concat(late...)
	slices.Sort(all)
	quantile := func(q float64) float64 { return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000 }
	fmt.Printf("late by %.2f ms (p50), %.2f ms (p99)\n", quantile(0.5), quantile(0.99))
	fmt.Printf("%d sent in the hold, %d in all, %d acknowledged, %d failed, %d received, %.2f us of processor each, %.4f s in the hold\n",
		inHold, sent.Load(), acknowledged.Load(), failed.Load(), came.Load(), float64(used.Microseconds())/float64(inHold), used.Seconds())
	return nil
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "messaging-peer:", err)
		os.Exit(1)
	}
}
