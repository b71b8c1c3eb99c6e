package web

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// writeLimit is how long a peer may take to accept writePiece bytes.
	writeLimit = 30 * time.Second
	writePiece = 64 << 10

	// crowdedLogs is how often the log names a peer with too many connections.
	crowdedLogs = time.Minute
)

// crowded is the answer to a peer with too many connections.
const crowded = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\nContent-Type: text/plain\r\nContent-Length: 22\r\n\r\ntoo many connections.\n"

// peers counts the connections of each peer.
type peers struct {
	most int
	log  *slog.Logger

	mu     sync.Mutex
	open   map[string]int
	logged time.Time
}

func newPeers(most int, log *slog.Logger) *peers {
	return &peers{most: most, log: log, open: map[string]int{}}
}

// listen is a listener whose connections are counted.
func (p *peers) listen(l net.Listener) net.Listener { return &countedListener{l, p} }

// enter counts a connection, unless its peer has too many.
func (p *peers) enter(peer string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[peer] < p.most {
		p.open[peer]++
		return true
	}
	if now := time.Now(); now.Sub(p.logged) >= crowdedLogs {
		p.logged = now
		p.log.Warn("refusing connections of a peer that has too many", "peer", peer, "open", p.most)
	}
	return false
}

func (p *peers) leave(peer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[peer]--; p.open[peer] <= 0 {
		delete(p.open, peer)
	}
}

type countedListener struct {
	net.Listener
	peers *peers
}

// Accept gives the next connection of a peer that may have another.
func (l *countedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := Peer(c.RemoteAddr().String())
		if err := probe(c); err != nil { // it has ended meanwhile
			_ = c.Close()
			continue
		}
		if l.peers.enter(peer) {
			return &countedConn{Conn: c, leave: sync.OnceFunc(func() { l.peers.leave(peer) })}, nil
		}
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = c.Write([]byte(crowded)) // fits into the buffer of a new connection
		_ = c.Close()
	}
}

// A countedConn is a connection that is closed when its peer does not read.
type countedConn struct {
	net.Conn
	leave func()
}

// Write sends b in pieces; the peer must accept each in time.
func (c *countedConn) Write(b []byte) (written int, err error) {
	for first := true; first || len(b) > 0; first = false {
		piece := b[:min(len(b), writePiece)]
		b = b[len(piece):]
		if err := c.Conn.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(piece)
		if written += n; err != nil {
			return written, err
		}
	}
	return written, nil
}

// unwrapped is the connection without what New has put around it.
func unwrapped(c net.Conn) net.Conn {
	if counted, ok := c.(*countedConn); ok {
		return counted.Conn
	}
	return c
}

// Close ends the connection.
func (c *countedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// Peer is the owner of connections and bytes from a remote address: an IPv4 address, or
// an IPv6 network of 64 bits, which one machine gets.
func Peer(remote string) string {
	host := hostname(remote)
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, err := ip.Prefix(64)
	if err != nil {
		return ip.String()
	}
	return network.String()
}
