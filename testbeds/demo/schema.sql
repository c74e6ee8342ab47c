-- The demonstration's tables, small enough to stay in memory. Run once, by the superuser.
-- The application's role owns nothing but these: only it may come in over TCP.
CREATE ROLE demo LOGIN;
CREATE DATABASE demo OWNER demo;
\connect demo
SET ROLE demo;

CREATE TABLE candidates (id int PRIMARY KEY, name text NOT NULL, active bool NOT NULL, votes bigint NOT NULL)
    WITH (fillfactor = 50);
INSERT INTO candidates SELECT n, 'candidate ' || n, true, 0 FROM generate_series(1, 100) n;

CREATE TABLE votes (id bigserial PRIMARY KEY, candidate_id int NOT NULL, voter text NOT NULL,
    at timestamptz NOT NULL DEFAULT now());

CREATE TABLE items (id int PRIMARY KEY, title text NOT NULL, price int NOT NULL);
INSERT INTO items SELECT n, 'item ' || n, n * 3 FROM generate_series(1, 1000) n;

CREATE TABLE users (id int PRIMARY KEY, name text NOT NULL, password text NOT NULL);
INSERT INTO users VALUES (1, 'ada', 'correct horse'), (2, 'bob', 'battery staple');
