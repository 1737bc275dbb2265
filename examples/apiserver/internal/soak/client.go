// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
)

const (
	// patience is how long a client tries one operation, at all replicas together.
	patience = 60 * time.Second
	// pause is between two tries.
	pause = 50 * time.Millisecond
)

// client does an operation at one replica after another until one has answered. It is used by one goroutine at a time.
type client struct {
	replicas []kubernetes.Interface
	at       int
	tally    *tally
}

// do calls op until it has an answer that says something about the object, and returns that: nil, or an error such as
// NotFound. A try whose outcome is unknown may have been applied: op has to be one that can be done twice, and again
// reports that this has happened.
func (c *client) do(ctx context.Context, op func(context.Context, kubernetes.Interface) error) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err = op(ctx, c.replicas[c.at])
		if err == nil || !retriable(err) {
			return again, err
		}
		c.tally.retried(err)
		again = true
		c.at = (c.at + 1) % len(c.replicas)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return again, fmt.Errorf("no answer from any replica within %s: %w", patience, err)
		}
	}
}

// retriable reports whether an error says nothing about the object: the connection was lost or refused, or the replica
// could not serve the call at the moment.
func retriable(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // from the connection
	}
	switch apierrors.ReasonForError(err) {
	case "ServiceUnavailable", "ServerTimeout", "Timeout", "TooManyRequests", "InternalError":
		return true
	}
	return false
}
