package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// A Room bounds how many bytes of large requests a process works on at once. A
// call takes up some twelve times its size while it is read, checked and handed
// on; while it waits for its run it holds nothing of that. nil = no bound.
type Room struct {
	free     *semaphore.Weighted
	size     int64
	patience time.Duration
}

const (
	// DefaultRoom is for two of the largest calls, in bytes.
	DefaultRoom = 68 << 20

	// What is smaller than this needs no room.
	largeBody = 1 << 20

	// RoomPatience is how long a large request waits for room.
	RoomPatience = 10 * time.Second

	// bodyLimit is how long it may take then to come in.
	bodyLimit = time.Minute

	// retryAfter is after how many seconds who found no room may find some.
	retryAfter = "5"
)

// NewRoom makes room for so many bytes, for which a request waits so long.
func NewRoom(size int64, patience time.Duration) *Room {
	return &Room{semaphore.NewWeighted(size), size, patience}
}

// errNoRoom says that a request was not begun.
var errNoRoom = errors.New("too many large requests at once; nothing was done, repeat it")

// Take waits for room for so many bytes, or all that there is. What it returns
// gives it back; a second time it does nothing.
func (r *Room) Take(ctx context.Context, bytes int64) (free func(), err error) {
	if r == nil || bytes <= 0 {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	bytes = min(bytes, r.size)
	if r.free.Acquire(ctx, bytes) != nil {
		return nil, errNoRoom
	}
	return sync.OnceFunc(func() { r.free.Release(bytes) }), nil
}

// Read reads a body of at most so many bytes, for which there has to be room if
// it is large. free gives the room back.
func (r *Room) Read(w http.ResponseWriter, request *http.Request, most int64) (body []byte, free func(), err error) {
	in := http.MaxBytesReader(w, request.Body, most)
	var read bytes.Buffer
	n, err := io.CopyN(&read, in, largeBody)
	switch {
	case errors.Is(err, io.EOF):
		return read.Bytes(), func() {}, nil
	case err != nil:
		return nil, nil, err
	}
	whole := most
	if request.ContentLength >= n {
		whole = min(request.ContentLength, most)
	}
	if free, err = r.Take(request.Context(), whole); err != nil {
		return nil, nil, err
	}
	// Room is not for who sends a byte now and then.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyLimit))
	read.Grow(int(whole-n) + bytes.MinRead)
	if _, err = read.ReadFrom(in); err != nil {
		free()
		return nil, nil, err
	}
	_ = control.SetReadDeadline(time.Time{})
	return read.Bytes(), free, nil
}

// RefuseBody answers a request whose body was not read.
func RefuseBody(w http.ResponseWriter, err error) {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, fmt.Sprintf("request body is larger than %d bytes", tooLarge.Limit), http.StatusRequestEntityTooLarge)
	case errors.Is(err, errNoRoom):
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		http.Error(w, "request body cannot be read", http.StatusBadRequest)
	}
}
