#!/usr/bin/env node
// An MQTT broker on the library Aedes: aedes-broker PORT [WEBSOCKET_PORT [TLS_PORT CERTIFICATE KEY]]
// METRICS_PORT in the environment is where it says of itself what an exporter says.
'use strict'

const fs = require('node:fs')
const http = require('node:http')
const net = require('node:net')
const path = require('node:path')
const { performance } = require('node:perf_hooks')
const tls = require('node:tls')
const { WebSocketServer, createWebSocketStream } = require('ws')

// The version of the library, which tells it to nobody but its own file.
function version () {
  const folder = require.resolve.paths('aedes').find(folder => fs.existsSync(path.join(folder, 'aedes')))
  return JSON.parse(fs.readFileSync(path.join(folder, 'aedes', 'package.json'), 'utf8')).version
}

// What the broker says of itself, in Prometheus' text format.
function exporter (broker) {
  let before = performance.eventLoopUtilization()
  return http.createServer((_request, response) => {
    const now = performance.eventLoopUtilization()
    const lines = [
      `aedes_clients ${broker.connectedClients}`,
      `nodejs_event_loop_utilization ${performance.eventLoopUtilization(now, before).utilization}`,
      `nodejs_heap_used_bytes ${process.memoryUsage().heapUsed}`
    ]
    before = now
    response.setHeader('Content-Type', 'text/plain; version=0.0.4')
    response.end(lines.join('\n') + '\n')
  })
}

async function main () {
  if (process.argv[2] === '--version') {
    console.log('aedes', version())
    return
  }
  const { Aedes } = await import('aedes')
  const broker = await Aedes.createBroker({
    // Work that may be under way for all clients together; the default is 100.
    concurrency: 10000,
    // What waits for a client that is not connected or reads slowly, in messages; the default is 42.
    queueLimit: 1 << 20
  })
  const [port, websocketPort, tlsPort, certificate, key] = process.argv.slice(2)
  const listen = (server, port) => server.listen({ host: '127.0.0.1', port: Number(port), backlog: 4096 })
  listen(net.createServer({ noDelay: true }, broker.handle), port)
  if (websocketPort) {
    const server = http.createServer()
    const websockets = new WebSocketServer({ server, handleProtocols: () => 'mqtt', perMessageDeflate: false })
    websockets.on('connection', (socket, request) => broker.handle(createWebSocketStream(socket), request))
    listen(server, websocketPort)
  }
  if (key) {
    const files = { cert: fs.readFileSync(certificate), key: fs.readFileSync(key) }
    listen(tls.createServer({ noDelay: true, ...files }, broker.handle), tlsPort)
  }
  if (process.env.METRICS_PORT) {
    listen(exporter(broker), process.env.METRICS_PORT)
  }
  const end = () => broker.close(() => process.exit(0))
  process.on('SIGINT', end)
  process.on('SIGTERM', end)
}

main().catch(error => {
  console.error('aedes-broker:', error.message)
  process.exit(1)
})
