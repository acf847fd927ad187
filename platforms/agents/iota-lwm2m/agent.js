#!/usr/bin/env node
// A small agent on the LwM2M library of FIWARE's agent: groups and devices are provisioned over HTTP (north) and kept in
// memory. A device that registers below the path of a group is observed, and each notification is written to its entity at a
// context broker in NGSIv2.
// The library is under AGPL-3.0; it is installed beside this file, not part of it.
//
//   iota-lwm2m-agent --lwm2m 5683 --north 4041 --broker 1026 [--host 127.0.0.1] [--log FATAL]
//
// The library listens for devices at all addresses. It acknowledges no confirmable notification.
'use strict';

const http = require('node:http');
const { json } = require('node:stream/consumers');
const { parseArgs } = require('node:util');
const { server: lwm2m } = require('lwm2m-node-lib');

// Where attributes are that nobody mapped to a resource, by their names.
const KNOWN = { Barometer: { objectType: 3315, objectInstance: 0, objectResource: 0 } };
// How long a device has to read the answer to its registration before it is observed, in milliseconds.
const OBSERVED_AFTER = 50;

const { values: options } = parseArgs({
    options: {
        lwm2m: { type: 'string' },
        north: { type: 'string' },
        broker: { type: 'string' },
        host: { type: 'string', default: '127.0.0.1' },
        log: { type: 'string', default: 'FATAL' }
    }
});
for (const name of ['lwm2m', 'north', 'broker']) {
    if (!options[name]) {
        console.error(`--${name} PORT is missing`);
        process.exit(2);
    }
}

const config = {
    port: Number(options.lwm2m),
    ipProtocol: 'udp4',
    serverProtocol: 'udp4',
    logLevel: options.log,
    lifetimeCheckInterval: 60000,
    // Devices answer in plain text: the library reads each notification as a text.
    defaultAcceptFormat: 'text/plain',
    // The paths below which devices register, one for each group.
    types: []
};
// Groups by their path, and devices by the name of their endpoint.
const groups = new Map();
const devices = new Map();

// Asks the broker for something; `after` is what must have ended before.
function ask(device, method, path, body) {
    const headers = { 'Content-Type': 'application/json', 'Fiware-Service': device.tenant, 'Fiware-ServicePath': device.path };
    const url = `http://${options.host}:${options.broker}/v2/entities${path}`;
    return fetch(url, { method, headers, body: JSON.stringify(body) }).then(async (answer) => {
        await answer.arrayBuffer();
        if (!answer.ok) {
            throw new Error(`the context broker answered ${answer.status} to ${method} ${path}`);
        }
    });
}

function wrong(error) {
    console.error(error.message || error);
}

// Writes a value, after those before it of the same device.
function write(device, name, type, value) {
    const path = `/${encodeURIComponent(device.entity)}/attrs?type=${encodeURIComponent(device.type)}`;
    device.last = device.last.then(() => ask(device, 'POST', path, { [name]: { type, value } })).catch(wrong);
}

// A device with its entity, which has no attributes yet.
async function make(endpoint, device) {
    await ask(device, 'POST', '?options=upsert', { id: device.entity, type: device.type });
    devices.set(endpoint, device);
    return device;
}

// Observes what the attributes of a device stand for.
function observe(id, device) {
    for (const { name, type } of device.attributes) {
        const { objectType, objectInstance, objectResource } = device.mapping[name] || KNOWN[name] || {};
        if (objectType !== undefined) {
            const written = (value) => write(device, name, type, value);
            const first = (error, value) => (error ? wrong(error) : written(value));
            lwm2m.observe(id, objectType, objectInstance, objectResource, written, first);
        }
    }
}

function registered(endpoint, lifetime, version, binding, objects, answer) {
    lwm2m.getDevice(endpoint, async (error, { id, path } = {}) => {
        const group = groups.get(path?.replace(/\/rd$/, ''));
        if (error || !group) {
            return answer(error || { name: 'TYPE_NOT_FOUND', code: '4.04' });
        }
        const made = { ...group, entity: `${endpoint}:${group.type}`, mapping: {}, last: Promise.resolve() };
        try {
            const device = devices.get(endpoint) || (await make(endpoint, made));
            setTimeout(observe, OBSERVED_AFTER, id, device);
            answer();
        } catch (failure) {
            wrong(failure);
            answer({ name: 'BROKER', code: '5.03' });
        }
    });
}

// Provisions groups and devices, and forgets devices: the status of the answer.
async function provisioned(request) {
    const [, , kind, name] = new URL(request.url, 'http://agent').pathname.split('/');
    if (request.method === 'GET' && kind === 'about') {
        return 200;
    } else if (request.method === 'DELETE' && (kind === 'services' || kind === 'devices')) {
        return kind === 'services' || devices.delete(decodeURIComponent(name)) ? 204 : 404;
    } else if (request.method !== 'POST') {
        return 404;
    }
    const of = { tenant: request.headers['fiware-service'], path: request.headers['fiware-servicepath'] };
    const { services = [], devices: given = [] } = await json(request);
    for (const { resource: url, entity_type: type, attributes } of services) {
        config.types = config.types.filter((known) => known.url !== url).concat({ name: type, url });
        groups.set(url, { ...of, type, attributes });
    }
    for (const { device_id: endpoint, entity_name: entity, entity_type: type, attributes, internal_attributes: own } of given) {
        const mapping = own?.lwm2mResourceMapping || {};
        await make(endpoint, { ...of, entity, type, attributes, mapping, last: Promise.resolve() });
    }
    return 201;
}

function north(request, response) {
    const end = (status) => response.writeHead(status, { 'Content-Type': 'application/json' }).end(status === 204 ? '' : '{}');
    provisioned(request).then(end, (error) => {
        wrong(error);
        end(error instanceof SyntaxError || error instanceof TypeError ? 400 : 502);
    });
}

lwm2m.start(config, (error, started) => {
    if (error) {
        wrong(error);
        process.exit(1);
    }
    lwm2m.setHandler(started, 'registration', registered);
    // Last: when this port answers, the agent is ready.
    http.createServer(north).listen(Number(options.north), options.host);
});
