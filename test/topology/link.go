package topology

import (
	"errors"
	"net"
	"sync"
	"time"
)

// A Link is a way by which one part of the world reaches another, a TCP proxy.
// It can be cut, refuse connections, be slow, or let nothing pass.
type Link struct {
	Name string

	address, target string

	mu       sync.Mutex
	listener net.Listener // nil = connections are refused
	pairs    map[*net.TCPConn]*net.TCPConn
	delay    time.Duration
	stalled  chan struct{} // closed when bytes pass again; nil = they do
}

// NewLink makes a link that listens at an address.
func NewLink(name, address, target string) (*Link, error) {
	l := &Link{Name: name, address: address, target: target, pairs: map[*net.TCPConn]*net.TCPConn{}}
	return l, l.Accept()
}

// Accept takes connections, again after Refuse.
func (l *Link) Accept() error {
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

// Refuse lets connections that exist be.
func (l *Link) Refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener.Close()
	l.listener = nil
}

// Cut ends all connections without a word.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a, b := range l.pairs {
		for _, c := range []*net.TCPConn{a, b} {
			_ = c.SetLinger(0) // a reset
			c.Close()
		}
	}
}

// SetDelay has each piece of what passes wait for so long.
func (l *Link) SetDelay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// Stall lets no byte pass until the function that it gives is called.
func (l *Link) Stall() (flow func()) {
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

// Close ends it.
func (l *Link) Close() {
	l.mu.Lock()
	if l.listener != nil {
		l.listener.Close()
	}
	l.mu.Unlock()
	l.Cut()
}

func (l *Link) connect(from *net.TCPConn) {
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
func (l *Link) carry(to, from *net.TCPConn) {
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

func (l *Link) hinder() {
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
