// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Ledger is who has which address, as told by the changes of all Services. It is used by one goroutine at a time.
type Ledger struct {
	holders map[string]holder // by address
	held    map[types.UID][]string
	// Changes counts what it was told.
	Changes int
	// Duplicates are the moments at which an address had a second holder.
	Duplicates []string
}

type holder struct {
	uid  types.UID
	name string
}

// NewLedger returns an empty one.
func NewLedger() *Ledger {
	return &Ledger{holders: map[string]holder{}, held: map[types.UID][]string{}}
}

// Put notes a Service as it is after a change. The changes are to be told in the order of their resourceVersions.
func (l *Ledger) Put(svc *corev1.Service) {
	l.Changes++
	l.release(svc.UID)
	var held []string
	for _, address := range claimed(svc) {
		if other, taken := l.holders[address]; taken {
			l.Duplicates = append(l.Duplicates, fmt.Sprintf("revision %s: %s goes to %s (%s), while %s (%s) has it",
				svc.ResourceVersion, address, nameOf(svc), svc.UID, other.name, other.uid))
			continue
		}
		l.holders[address] = holder{svc.UID, nameOf(svc)}
		held = append(held, address)
	}
	if held != nil {
		l.held[svc.UID] = held
	}
}

// Gone notes that a Service is gone.
func (l *Ledger) Gone(svc *corev1.Service) {
	l.Changes++
	l.release(svc.UID)
}

func (l *Ledger) release(uid types.UID) {
	for _, address := range l.held[uid] {
		delete(l.holders, address)
	}
	delete(l.held, uid)
}
