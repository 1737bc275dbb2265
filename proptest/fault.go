// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"github.com/metacidr/metacidr/proptest/simapi"
)

// fault is what goes wrong with the API calls of one call.
type fault int

const (
	noFault fault = iota
	forbidden
	invalid
	tooManyRequests
	refusedConnection
	lostOnTheWay    // the create is not applied, and the caller cannot know
	lostAnswer      // the create is applied, and the caller cannot know
	lostAnswerTwice // and reading back fails too
	unavailableReads
	lostDelete // applied, and the caller cannot know
	failedDelete
)

// refusals are the faults after which it is certain that nothing was created.
var refusals = [...]fault{forbidden, invalid, tooManyRequests, refusedConnection}

// refuses reports that the server, or the way to it, refuses the first create.
func (f fault) refuses() bool { return f >= forbidden && f <= refusedConnection }

// err is the error that the first create of a call meets.
func (f fault) err() error {
	switch f {
	case forbidden:
		return simapi.Forbidden("quota")
	case invalid:
		return simapi.Invalid("a webhook says so")
	case tooManyRequests:
		return simapi.TooManyRequests(1)
	case refusedConnection:
		return simapi.ConnectionRefused()
	case lostOnTheWay:
		return simapi.ConnectionReset()
	case lostAnswer, lostAnswerTwice:
		return simapi.ConnectionCut()
	}
	return nil
}

// arm lets the fault meet the next calls of the replica.
func (f fault) arm(w *world, name string) {
	fail := func(verb, resource string, when simapi.Phase, err error) {
		w.server.Fail(simapi.Fault{Replica: name, Verb: verb, Resource: resource, When: when, Err: err})
	}
	switch f {
	case forbidden, invalid, tooManyRequests, refusedConnection, lostOnTheWay:
		fail("create", "ipaddresses", simapi.Before, f.err())
	case lostAnswer:
		fail("create", "ipaddresses", simapi.After, f.err())
	case lostAnswerTwice:
		fail("create", "ipaddresses", simapi.After, f.err())
		fail("get", "ipaddresses", simapi.Before, f.err())
	case unavailableReads:
		fail("get", "servicecidrs", simapi.Before, simapi.Unavailable())
	case lostDelete:
		fail("delete", "ipaddresses", simapi.After, simapi.ConnectionCut())
	case failedDelete:
		fail("delete", "ipaddresses", simapi.Before, simapi.ConnectionReset())
	}
}

// String is the story's.
func (f fault) String() string {
	return [...]string{
		"", "; its create is Forbidden", "; its create is Invalid", "; its create meets 429", "; its create finds no server",
		"; its create is lost on the way", "; its create is applied, the answer is lost", "; its create is applied, the answer is lost, and reading back fails",
		"; a read of a ServiceCIDR is answered 503", "; its delete is applied, the answer is lost", "; its delete is lost on the way",
	}[f]
}
