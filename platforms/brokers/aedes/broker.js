#!/usr/bin/env node
// An MQTT broker on the library Aedes: aedes-broker PORT
'use strict'

const fs = require('node:fs')
const net = require('node:net')
const path = require('node:path')

// The version of the library, which tells it to nobody but its own file.
function version () {
  const folder = require.resolve.paths('aedes').find(folder => fs.existsSync(path.join(folder, 'aedes')))
  return JSON.parse(fs.readFileSync(path.join(folder, 'aedes', 'package.json'), 'utf8')).version
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
  const server = net.createServer({ noDelay: true }, broker.handle)
  server.listen({ host: '127.0.0.1', port: Number(process.argv[2]), backlog: 4096 })
  const end = () => broker.close(() => process.exit(0))
  process.on('SIGINT', end)
  process.on('SIGTERM', end)
}

main().catch(error => {
  console.error('aedes-broker:', error.message)
  process.exit(1)
})
