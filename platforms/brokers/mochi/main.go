// An MQTT broker on the library Mochi, for tests and measurements: mochi-broker ADDRESS [WEBSOCKET_ADDRESS [TLS_ADDRESS CERTIFICATE KEY]].
package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
)

// The version of the library, as the build knows it.
func version() string {
	if built, ok := debug.ReadBuildInfo(); ok {
		for _, module := range built.Deps {
			if module.Path == "github.com/mochi-mqtt/server/v2" {
				return "mochi " + module.Version
			}
		}
	}
	return "mochi " + mqtt.Version
}

func listenOverTLS(server *mqtt.Server, address, certificate, key string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	secured := &tls.Config{Certificates: []tls.Certificate{pair}}
	return server.AddListener(listeners.NewTCP(listeners.Config{ID: "tls", Address: address, TLSConfig: secured}))
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: mochi-broker ADDRESS [WEBSOCKET_ADDRESS [TLS_ADDRESS CERTIFICATE KEY]]")
		os.Exit(2)
	}
	if os.Args[1] == "--version" {
		fmt.Println(version())
		return
	}
	capabilities := mqtt.NewDefaultServerCapabilities()
	// What waits for a client that reads slowly, and how much may be in flight: as much as the protocol allows.
	capabilities.MaximumClientWritesPending = 1 << 20
	capabilities.ReceiveMaximum = math.MaxUint16
	capabilities.MaximumInflight = math.MaxUint16
	capabilities.MaximumMessageExpiryInterval = 0
	server := mqtt.New(&mqtt.Options{
		Capabilities:           capabilities,
		SysTopicResendInterval: 1,
		Logger:                 slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	failed := server.AddHook(new(auth.AllowHook), nil)
	if failed == nil {
		failed = server.AddListener(listeners.NewTCP(listeners.Config{ID: "tcp", Address: os.Args[1]}))
	}
	if failed == nil && len(os.Args) > 2 {
		failed = server.AddListener(listeners.NewWebsocket(listeners.Config{ID: "ws", Address: os.Args[2]}))
	}
	if failed == nil && len(os.Args) > 5 {
		failed = listenOverTLS(server, os.Args[3], os.Args[4], os.Args[5])
	}
	if failed == nil {
		failed = server.Serve()
	}
	if failed != nil {
		fmt.Fprintln(os.Stderr, "mochi-broker:", failed)
		os.Exit(1)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
	_ = server.Close()
}
