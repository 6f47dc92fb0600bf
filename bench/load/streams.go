package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// What of HTTP/2 (RFC 9113) watchers need that share a connection, as those of Go's clients do.
const (
	dataFrame, headersFrame, resetFrame, settingsFrame, pingFrame, goawayFrame, windowFrame = 0, 1, 3, 4, 6, 7, 8

	endOfStream, acknowledged, endOfHeaders = 0x1, 0x1, 0x4

	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	initialWindow = 4 // the setting's number
	everything    = 1<<31 - 1
	status200     = 0x88 // as a header block of an answer begins
)

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	out := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	out = binary.BigEndian.AppendUint32(out, stream)
	return append(out, payload...)
}

// field is one header, written out without the tables.
func field(block []byte, name, value string) []byte {
	block = append(block, 0)
	for _, text := range []string{name, value} {
		if size := len(text); size < 127 {
			block = append(block, byte(size))
		} else {
			block = append(block, 127)
			for size -= 127; size >= 128; size >>= 7 {
				block = append(block, byte(size)|128)
			}
			block = append(block, byte(size))
		}
		block = append(block, text...)
	}
	return block
}

// streams asks for path as often as told over one connection, says so when all are answered, and calls back for each
// line of each answer. Its windows never close: nothing but acknowledgements goes back.
func (s server) streams(path string, times int, answered func(), line func([]byte)) {
	socket := s.dial("h2")
	out := []byte(preface)
	windows := binary.BigEndian.AppendUint32([]byte{0, initialWindow}, everything)
	out = append(out, frame(settingsFrame, 0, 0, windows)...)
	out = append(out, frame(windowFrame, 0, 0, binary.BigEndian.AppendUint32(nil, everything-65535))...)
	var block []byte
	for _, each := range [][2]string{
		{":method", "GET"}, {":scheme", "https"}, {":path", s.path + path}, {":authority", s.host},
		{"authorization", "Bearer " + *token}, {"accept", "application/json"}, {"user-agent", "bench/1"},
	} {
		block = field(block, each[0], each[1])
	}
	for i := range times {
		out = append(out, frame(headersFrame, endOfStream|endOfHeaders, uint32(2*i+1), block)...)
	}
	_, err := socket.Write(out)
	must(err)

	in := bufio.NewReaderSize(socket, 1<<16)
	lines := map[uint32][]byte{}
	var head [9]byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		size := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
		stream := binary.BigEndian.Uint32(head[5:]) &^ (1 << 31)
		payload, err := in.Peek(size)
		must(err)
		switch kind, flags := head[3], head[4]; {
		case kind == dataFrame:
			text := append(lines[stream], payload...)
			lines[stream] = append(text[:0], whole(text, line)...)
		case kind == headersFrame:
			if payload[0] != status200 {
				fmt.Fprintf(os.Stderr, "a watch was answered with the header block %q\n", payload)
				os.Exit(1)
			}
			answered()
		case (kind == settingsFrame || kind == pingFrame) && flags&acknowledged == 0:
			if kind == settingsFrame {
				payload = nil
			}
			_, err := socket.Write(frame(kind, acknowledged, 0, payload))
			must(err)
		case kind == resetFrame || kind == goawayFrame:
			fmt.Fprintf(os.Stderr, "stream %d was ended: %q\n", stream, payload)
			os.Exit(1)
		}
		_, err = in.Discard(size)
		must(err)
	}
}

// whole calls back for every line that is complete, and gives the rest.
func whole(text []byte, line func([]byte)) []byte {
	for {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			return text
		}
		line(text[:end+1])
		text = text[end+1:]
	}
}
