#!/usr/bin/env node
// A small agent on FIWARE's agent library: devices send JSON over MQTT or HTTP, and the library writes it to a context
// broker in NGSIv2. Groups and devices are provisioned at the library's own API (north) and kept in memory. The library is
// under AGPL-3.0; it is installed beside this file, not part of it.
//
//   iota-json-agent --north 4041 --south 7896 --mqtt 1883 --broker 1026 [--host 127.0.0.1] [--log ERROR]
//     [--pause MILLISECONDS] [--group KEY --tenant TENANT --path PATH --type TYPE]
//
// With --group it provisions that group by itself. A device of the group that nobody provisioned is made when it first sends. So
// several agents may have the same devices.
'use strict';

const http = require('node:http');
const { parseArgs, promisify } = require('node:util');
const agent = require('iotagent-node-lib');
const mqtt = require('mqtt');

// Where groups are provisioned that this agent serves, and where devices send over HTTP.
const RESOURCE = '/iot/json';
// As the agent for JSON does: shared, at QoS 0, with and without the protocol's name; a whole object or one attribute.
const TOPICS = ['/+/+/attrs', '/json/+/+/attrs', 'json/+/+/attrs'].flatMap((topic) => [topic, `${topic}/+`]);
const LARGEST_BODY = 1024 * 1024;

const { values: options } = parseArgs({
    options: {
        north: { type: 'string' },
        south: { type: 'string' },
        mqtt: { type: 'string' },
        broker: { type: 'string' },
        host: { type: 'string', default: '127.0.0.1' },
        log: { type: 'string', default: 'ERROR' },
        // Planted: how long each measure waits, beside the others, before it is written.
        pause: { type: 'string', default: '0' },
        group: { type: 'string' },
        tenant: { type: 'string', default: 'default' },
        path: { type: 'string', default: '/' },
        type: { type: 'string', default: 'Reading' }
    }
});
for (const name of ['north', 'south', 'mqtt', 'broker']) {
    if (!options[name]) {
        console.error(`--${name} PORT is missing`);
        process.exit(2);
    }
}

const retrieveDevice = promisify(agent.retrieveDevice);
const update = promisify(agent.update);
const pause = promisify(setTimeout);

// Writes the attributes that a device has measured to its entity.
async function measured(apikey, id, measures) {
    if (measures === null || typeof measures !== 'object' || Array.isArray(measures)) {
        throw Object.assign(new Error('measures are an object of attributes'), { code: 400 });
    }
    const device = await retrieveDevice(id, apikey);
    const typeOf = (name) => (device.active || []).find((known) => known.object_id === name)?.type || 'Text';
    const attributes = Object.entries(measures).map(([name, value]) => ({ name, type: typeOf(name), value }));
    if (Number(options.pause) > 0) {
        await pause(Number(options.pause));
    }
    await update(device.name, device.type, apikey, attributes, device);
}

function told(error) {
    agent.logModule.error({ op: 'measure' }, error.message || String(error));
}

// [protocol,] key, device, 'attrs' [, attribute]
function published(topic, payload) {
    const parts = topic.split('/').filter((part) => part !== '');
    const end = parts.lastIndexOf('attrs');
    const [apikey, id] = parts.slice(end - 2, end);
    const attribute = parts[end + 1];
    const text = payload.toString();
    let value;
    try {
        value = JSON.parse(text);
    } catch (error) {
        if (attribute === undefined) {
            return told(error);
        }
        value = text;
    }
    measured(apikey, id, attribute === undefined ? value : { [attribute]: value }).catch(told);
}

async function bodyOf(request) {
    const chunks = [];
    let length = 0;
    for await (const chunk of request) {
        length += chunk.length;
        if (length > LARGEST_BODY) {
            throw Object.assign(new Error('too large'), { code: 413 });
        }
        chunks.push(chunk);
    }
    return Buffer.concat(chunks).toString();
}

async function posted(request, response) {
    const url = new URL(request.url, 'http://agent');
    const [apikey, id] = [url.searchParams.get('k'), url.searchParams.get('i')];
    try {
        if (request.method !== 'POST' || url.pathname !== RESOURCE || !apikey || !id) {
            throw Object.assign(new Error(`POST ${RESOURCE}?k=KEY&i=DEVICE`), { code: 404 });
        }
        const body = await bodyOf(request);
        let measures;
        try {
            measures = JSON.parse(body);
        } catch (error) {
            throw Object.assign(error, { code: 400 });
        }
        await measured(apikey, id, measures);
        response.writeHead(200, { 'Content-Type': 'application/json' }).end('{}');
    } catch (error) {
        const code = Number.isInteger(error.code) && error.code >= 400 && error.code < 600 ? error.code : 500;
        const { name, message } = error;
        response.writeHead(code, { 'Content-Type': 'application/json' }).end(JSON.stringify({ name, message }));
    }
}

// Provisions a group at the library's own API, as anybody else would.
async function provision(apikey) {
    const attributes = [{ object_id: 'm', name: 'message', type: 'TextUnrestricted' }];
    const group = { apikey, resource: RESOURCE, entity_type: options.type, attributes };
    const answer = await fetch(`http://${options.host}:${options.north}/iot/services`, {
        method: 'POST',
        headers: {
            'Content-Type': 'application/json',
            'Fiware-Service': options.tenant,
            'Fiware-ServicePath': options.path
        },
        body: JSON.stringify({ services: [group] })
    });
    if (!answer.ok) {
        throw new Error(`the group ${apikey} was not provisioned: ${answer.status} ${await answer.text()}`);
    }
}

async function main() {
    agent.logModule.setLevel(options.log);
    const devices = await mqtt.connectAsync(`mqtt://${options.host}:${options.mqtt}`);
    devices.on('message', published);
    await devices.subscribeAsync(TOPICS.map((topic) => `$share/json/${topic}`), { qos: 0 });
    const south = http.createServer(posted);
    // Devices keep their connections as long as they like.
    south.keepAliveTimeout = 0;
    await new Promise((resolve) => south.listen(Number(options.south), options.host, resolve));
    // Last, for whoever sees the port answer takes the agent for ready.
    await promisify(agent.activate)({
        logLevel: options.log,
        contextBroker: { host: options.host, port: options.broker, ngsiVersion: 'v2' },
        server: { host: options.host, port: Number(options.north) },
        deviceRegistry: { type: 'memory' },
        defaultResource: RESOURCE,
        types: {},
        service: 'default',
        subservice: '/',
        providerUrl: `http://${options.host}:${options.north}`,
        timestamp: false
    });
    if (options.group !== undefined) {
        await provision(options.group);
    }
}

main().catch((error) => {
    console.error(error.message || error);
    process.exit(1);
});
