// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package adapter

// section is a lock of the same length as the mutex of one MetaAllocator, but one
// for which a goroutine of a bubble can wait:
//
//	AllocateNext         mutex |--look--create--create--|   section.across
//	AllocateAt, Release  mutex |--look--|  create           section.untilCall
//	an event             mutex |--look--|                   section.across
type section struct {
	lock chan struct{} // has a token while the section is locked; nil locks nothing
	// brief is set while the lock is to end with the next API call; true says that
	// it has. It is the holder's.
	brief *bool
}

func newSection(visible bool) *section {
	if !visible {
		return &section{}
	}
	return &section{lock: make(chan struct{}, 1)}
}

// across runs f while the section is locked.
func (s *section) across(f func()) {
	if s.lock != nil {
		s.lock <- struct{}{}
		defer func() { <-s.lock }()
	}
	f()
}

// untilCall runs f, which makes at most one API call, with the section locked until
// that.
func (s *section) untilCall(f func()) {
	if s.lock == nil {
		f()
		return
	}
	s.lock <- struct{}{}
	var ended bool
	s.brief = &ended
	f()
	if !ended {
		s.brief = nil
		<-s.lock
	}
}

// onCall is told of each API call, by the goroutine that makes it.
func (s *section) onCall() {
	if s.lock == nil || s.brief == nil {
		return
	}
	*s.brief, s.brief = true, nil
	<-s.lock
}
