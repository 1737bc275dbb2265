// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import memdb "github.com/hashicorp/go-memdb"

// parallelFrom is the size of a batch from which the table of owners is filled
// beside the other tables: an initial list, not a few events of a watch.
const parallelFrom = 4096

// ownedChunk is how many changes pass to the table of owners at a time.
const ownedChunk = 1024

// ownedBatch takes a batch into the table of owners, in the order of its
// changes.
type ownedBatch struct {
	txn     *memdb.Txn
	pending []ownedChange
	chunks  chan []ownedChange // nil for a small batch
	done    chan struct{}
}

// ownedChange replaces a row by another; nil stands for none.
type ownedChange struct{ old, row *IPAddress }

func newOwnedBatch(db *memdb.MemDB, size int) *ownedBatch {
	b := &ownedBatch{txn: db.Txn(true)}
	if size >= parallelFrom {
		b.chunks, b.done = make(chan []ownedChange, 4), make(chan struct{})
		go func() {
			defer close(b.done)
			for chunk := range b.chunks {
				b.apply(chunk)
			}
		}()
	}
	return b
}

func (b *ownedBatch) put(old, row *IPAddress) {
	b.pending = append(b.pending, ownedChange{old, row})
	if b.chunks != nil && len(b.pending) == ownedChunk {
		b.chunks <- b.pending
		b.pending = make([]ownedChange, 0, ownedChunk)
	}
}

// finish waits until all is in the transaction, which the caller ends.
func (b *ownedBatch) finish() *memdb.Txn {
	if b.chunks != nil {
		close(b.chunks)
		<-b.done
	}
	b.apply(b.pending)
	return b.txn
}

func (b *ownedBatch) apply(changes []ownedChange) {
	for _, c := range changes {
		if c.old != nil && (c.row == nil || c.old.Owner() != c.row.Owner()) {
			must(b.txn.Delete(tableOwned, c.old))
		}
		if c.row != nil {
			must(b.txn.Insert(tableOwned, c.row))
		}
	}
}
