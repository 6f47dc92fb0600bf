package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

var complaints atomic.Int32 // only the first few refusals are shown

// conn is one HTTP/1.1 connection: as little as the protocol allows between the test and the socket.
type conn struct {
	socket net.Conn
	in     *bufio.Reader
	prefix string // of every path
	fixed  string // headers of every request
	out    []byte
}

// server is where the flags say it is.
type server struct {
	host, path string
	trusted    *x509.CertPool
}

func target() server {
	at, err := url.Parse(*base)
	must(err)
	pem, err := os.ReadFile(*ca)
	must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return server{at.Host, at.Path, pool}
}

func (s server) dial(protocols ...string) net.Conn {
	plain, err := net.Dial("tcp", s.host)
	must(err)
	name, _, err := net.SplitHostPort(s.host)
	must(err)
	settings := &tls.Config{RootCAs: s.trusted, ServerName: name, NextProtos: protocols}
	socket := tls.Client(&gathered{plain, bufio.NewReaderSize(plain, 1<<14)}, settings)
	must(socket.Handshake())
	return socket
}

func (s server) open() *conn {
	socket := s.dial()
	fixed := "Host: " + s.host + "\r\nAuthorization: Bearer " + *token +
		"\r\nAccept: application/json\r\nUser-Agent: bench/1\r\n"
	return &conn{socket: socket, in: bufio.NewReaderSize(socket, 1<<16), prefix: s.path, fixed: fixed}
}

// gathered reads what has arrived in one system call, where crypto/tls by itself takes two for each record.
type gathered struct {
	net.Conn
	in *bufio.Reader
}

func (g *gathered) Read(into []byte) (int, error) { return g.in.Read(into) }

// do sends one request and reads its answer to the end; false if it was not a success.
func (c *conn) do(method, path string, data []byte, media string) bool {
	c.send(method, path, data, media)
	status, body := c.head()
	if status >= 300 {
		text, _ := io.ReadAll(body)
		if complaints.Add(1) <= 3 {
			fmt.Fprintln(os.Stderr, method, path, status, string(text[:min(len(text), 300)]))
		}
		return false
	}
	_, err := io.Copy(io.Discard, body)
	return err == nil
}

func (c *conn) send(method, path string, data []byte, media string) {
	c.out = append(c.out[:0], method...)
	c.out = append(c.out, ' ')
	c.out = append(c.out, c.prefix...)
	c.out = append(c.out, path...)
	c.out = append(c.out, " HTTP/1.1\r\n"...)
	c.out = append(c.out, c.fixed...)
	if media != "" {
		c.out = fmt.Appendf(c.out, "Content-Type: %s\r\nContent-Length: %d\r\n", media, len(data))
	}
	c.out = append(c.out, "\r\n"...)
	c.out = append(c.out, data...)
	_, err := c.socket.Write(c.out)
	must(err)
}

// head reads up to the body. What it gives for the body ends where the body ends.
func (c *conn) head() (int, io.Reader) {
	line, err := c.in.ReadSlice('\n')
	must(err)
	status, err := strconv.Atoi(string(line[9:12]))
	must(err)
	var body io.Reader
	for {
		line, err := c.in.ReadSlice('\n')
		must(err)
		if len(line) <= 2 {
			break
		}
		name, value, _ := strings.Cut(string(line), ":")
		switch strings.ToLower(name) {
		case "content-length":
			length, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			must(err)
			body = io.LimitReader(c.in, length)
		case "transfer-encoding":
			body = &chunks{in: c.in}
		}
	}
	return status, body
}

// chunks reads a body of chunks, up to and with the empty one at its end.
type chunks struct {
	in   *bufio.Reader
	left int
	done bool
}

func (b *chunks) Read(into []byte) (int, error) {
	if b.done {
		return 0, io.EOF
	}
	if b.left == 0 {
		line, err := b.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		size, err := strconv.ParseInt(strings.TrimSpace(string(line)), 16, 64)
		if err != nil {
			return 0, err
		}
		if size == 0 {
			b.done = true
			_, err = b.in.ReadSlice('\n')
			if err == nil {
				err = io.EOF
			}
			return 0, err
		}
		b.left = int(size)
	}
	n, err := b.in.Read(into[:min(len(into), b.left)])
	b.left -= n
	if b.left == 0 && err == nil {
		_, err = b.in.Discard(2)
	}
	return n, err
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
