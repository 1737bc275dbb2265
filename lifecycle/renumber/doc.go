// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package renumber is the engine of the renumbering playbooks: it plans how a cluster
// gets from one service range to another, carries the plan out, and takes it back.
// It prints nothing: the kubectl plugin in cmd/kubectl-service_cidr does.
//
//	Explain ── a range alone, offline
//
//	ReadWorld ─► World ─┐                 ┌─► Diff, DryRun
//	                    ├─► Make ─► Plan ─┤                          ┌─ nil: done
//	         Request ───┘                 └─► Runner.Run ─► ─────────┼─ *StepError: Run again goes on
//	                                           │      ▲              └─ killed:     Run again goes on
//	                                    before │      │ after
//	                                           ▼      │
//	                                          Journal ─► ReadStatus
//	                                           │
//	                                           └─► Inverse ─► the Plan that takes it back, for the same Runner
//
// A plan is a list of steps, each with a gate: what must be seen before the next one
// begins. Moving the Services is one of them, in batches:
//
//	batch: intents, with all of each Service ─► journal ─► moves, several at a time ─► what became of them ─► journal
//	move:  original ─► parked as ExternalName ─► back at another address ─► fields given back to their owners
//
// Files: plan.go, playbook.go, make.go and preflight_*.go plan; runner.go, steps.go,
// batch.go, move.go, merge.go and handover.go run; journal*.go remember; rollback.go,
// status.go and verify.go look back.
//
// # Rules
//
//   - Planning only reads. What cannot be done is an error or a finding, and names the
//     input and the remedy.
//   - I12: before a call destroys anything of a Service, all of it is in the journal, on the
//     disk and in the cluster. Either journal alone is enough to go on by, or back.
//   - What to do next is read off the live objects and the journal, never off what this
//     process remembers having done: it may be killed between any two calls. Memory only
//     tells whether an absence is the runner's own doing.
//   - What another client does meanwhile is kept. Where it and the move stand against each
//     other, the other client wins and the operator is told (Told, Left).
//   - A Service is the other managers' after the move: the runner leaves no field in its
//     own name.
//   - The operator's part, restarting API servers and telling what keeps a copy of the old
//     range, is waited for and checked, never assumed.
package renumber
