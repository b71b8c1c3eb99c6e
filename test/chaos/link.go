package main

import (
	"errors"
	"net"
	"sync"
	"time"
)

// A link is a way by which one part of the world reaches another. It can be
// cut, refuse connections, be slow, or let nothing pass.
type link struct {
	name, address, target string

	mu       sync.Mutex
	listener net.Listener // nil = connections are refused
	pairs    map[*net.TCPConn]*net.TCPConn
	delay    time.Duration
	stalled  chan struct{} // closed when bytes pass again; nil = they do
}

// newLink makes a link that listens at an address.
func newLink(name, address, target string) (*link, error) {
	l := &link{name: name, address: address, target: target, pairs: map[*net.TCPConn]*net.TCPConn{}}
	return l, l.accept()
}

// accept takes connections, again after refuse.
func (l *link) accept() error {
	listener, err := net.Listen("tcp", l.address)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.listener = listener
	l.mu.Unlock()
	go func() {
		for {
			c, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go l.connect(c.(*net.TCPConn))
			}
		}
	}()
	return nil
}

// refuse lets connections that exist be.
func (l *link) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener.Close()
	l.listener = nil
}

// cut ends all connections without a word.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a, b := range l.pairs {
		for _, c := range []*net.TCPConn{a, b} {
			_ = c.SetLinger(0) // a reset
			c.Close()
		}
	}
}

func (l *link) setDelay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// stall lets no byte pass until the function that it gives is called.
func (l *link) stall() (flow func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{})
	l.stalled = c
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stalled = nil
		close(c)
	}
}

func (l *link) close() {
	l.mu.Lock()
	if l.listener != nil {
		l.listener.Close()
	}
	l.mu.Unlock()
	l.cut()
}

func (l *link) connect(from *net.TCPConn) {
	defer from.Close()
	c, err := net.DialTimeout("tcp", l.target, 5*time.Second)
	if err != nil {
		_ = from.SetLinger(0)
		return
	}
	to := c.(*net.TCPConn)
	defer to.Close()
	l.mu.Lock()
	l.pairs[from] = to
	l.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { l.carry(to, from) })
	both.Go(func() { l.carry(from, to) })
	both.Wait()
	l.mu.Lock()
	delete(l.pairs, from)
	l.mu.Unlock()
}

// carry carries bytes one way, and then the end of them.
func (l *link) carry(to, from *net.TCPConn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			l.hinder()
			if _, err := to.Write(buffer[:n]); err != nil {
				from.Close()
				return
			}
		}
		if err != nil {
			_ = to.CloseWrite()
			return
		}
	}
}

func (l *link) hinder() {
	l.mu.Lock()
	delay, stalled := l.delay, l.stalled
	l.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay)
	}
	if stalled != nil {
		<-stalled
	}
}
