package natsx

import (
	"bytes"
	"context"
	"errors"
	"time"
)

const (
	// maxConflicts is how often Modify starts again after a conflict.
	maxConflicts = 100
	// maxUnconfirmed is how often Modify repeats a write that failed or got no reply.
	maxUnconfirmed = 4
	// inFlightDelay is about how long Modify waits after a conflict with its own write, which a server is storing.
	inFlightDelay = 100 * time.Millisecond
)

// Modify replaces a stored value by compare-and-set, and returns what is stored then, with its revision. change gets
// the stored value, nil if there is none, and its revision, and returns the new value. It is called again after a
// conflict. write stores a value if the stored one is still at a revision; else its error is ErrConflict.
//
// A write that was not confirmed in time may be stored, now or later. So the value is read back, and the same value is
// written again if it is not there: then it is stored once. The first write may take a quarter of HedgeWait, the second
// half of it, since a write to a stream that is electing its leader is lost without an error.
func Modify(ctx context.Context, read func(context.Context) (value []byte, revision uint64, err error),
	write func(ctx context.Context, value []byte, revision uint64) (next uint64, err error),
	change func(old []byte, revision uint64) ([]byte, error)) (stored []byte, revision uint64, err error) {
	var tried []byte // in place of the value with revision at
	var at uint64
	isDoubtful := false // tried may be stored
	for conflicts, unconfirmed := 0, 0; ; {
		old, now, err := read(ctx)
		switch {
		case err != nil:
			return nil, 0, err
		case isDoubtful && isEqual(old, tried):
			return old, now, nil
		case !isDoubtful || now != at:
			if tried, err = change(old, now); err != nil || isEqual(old, tried) {
				return old, now, err
			}
			at, isDoubtful = now, false
		}
		within, cancel := context.WithTimeout(ctx, HedgeWait>>max(2-unconfirmed, 0))
		next, err := write(within, tried, at)
		cancel()
		if err == nil {
			return tried, next, nil
		}
		pause := time.Duration(0)
		if errors.Is(err, ErrConflict) {
			if conflicts++; isDoubtful {
				pause = jitter(inFlightDelay)
			} else if conflicts > 2 {
				pause = jitter(10 * time.Millisecond)
			}
		} else {
			pause = 20 * time.Millisecond << unconfirmed
			unconfirmed++
			isDoubtful = true
		}
		if conflicts > maxConflicts || unconfirmed > maxUnconfirmed || !Sleep(ctx, pause) {
			return nil, 0, err
		}
	}
}

// isEqual reports whether two values are the same; nil is no value.
func isEqual(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
