"""The tables and views of ``journal.duckdb``: what people query. Text only.

Every row is derived from the segments and packs and can be rebuilt; nothing is ever updated or
deleted in place (DuckDB files do not shrink). ``docs/journal.md`` explains each table and column.

A line is kept in three parts, cut around its data, and put together where ``line`` is asked for:
what is alike lies together and takes a third less, and a question about a field reads ``data``
alone.
Not here: filling them (``journal.index_fill``).
"""

SCHEMA_VERSION = 3

TABLES = """
CREATE TABLE meta(name VARCHAR, value VARCHAR);
CREATE TABLE event(
  stream VARCHAR, seq BIGINT, id VARCHAR, ts_us BIGINT, mono_us BIGINT, boot VARCHAR,
  kind VARCHAR, schema INTEGER, actor_kind VARCHAR, actor VARCHAR, incident VARCHAR, host VARCHAR,
  cause VARCHAR, idem VARCHAR, command VARCHAR, command_id VARCHAR, effect VARCHAR,
  exit_status INTEGER, duration_ms BIGINT, segment INTEGER, byte_offset BIGINT, leaf BLOB,
  head VARCHAR, data VARCHAR, tail VARCHAR,
  line VARCHAR GENERATED ALWAYS AS (concat(head, data, tail)) VIRTUAL);
CREATE TABLE output(
  stream VARCHAR, seq BIGINT, name VARCHAR, commitment VARCHAR, length_bytes BIGINT,
  stored_bytes BIGINT, truncated BOOLEAN, file VARCHAR, byte_offset BIGINT, content VARCHAR);
"""

VIEWS = """
CREATE VIEW intent AS
  SELECT * EXCLUDE (leaf, exit_status, duration_ms) FROM event WHERE kind = 'command_intended';
CREATE VIEW outcome AS
  SELECT *, replace(replace(kind, 'command_', ''), 'outcome_', '') AS outcome
  FROM event WHERE kind IN ('command_denied', 'command_not_sent', 'command_completed',
                            'command_failed', 'command_outcome_unknown');
CREATE VIEW command AS
  SELECT i.command_id, i.incident, i.host, i.command, i.effect, i.actor,
         make_timestamp(i.ts_us) AS intended_at, coalesce(o.outcome, 'in doubt') AS outcome,
         o.exit_status, o.duration_ms,
         i.data -> '$.arguments' AS arguments, i.stream, i.seq AS intent_seq,
         o.seq AS outcome_seq
  FROM intent i LEFT JOIN outcome o USING (command_id);
CREATE VIEW in_doubt AS SELECT * FROM command WHERE outcome = 'in doubt';
CREATE VIEW signal AS
  SELECT command_id, incident, host, intended_at, outcome, arguments ->> '$.signal' AS signal,
         arguments -> '$.victim' AS victim
  FROM command WHERE command = 'signal_process';
CREATE VIEW observation AS
  SELECT e.stream, e.seq, e.id, e.incident, e.host, e.command, e.command_id,
         make_timestamp(e.ts_us) AS time,
         CASE WHEN o.content IS NULL THEN e.data -> '$.observation'
              ELSE o.content::JSON END AS observation
  FROM event e LEFT JOIN output o
    ON o.stream = e.stream AND o.seq = e.seq AND o.name = 'observation'
  WHERE e.kind = 'observation_parsed';
CREATE VIEW decision AS
  SELECT stream, seq, id, incident, make_timestamp(ts_us) AS time,
         data ->> '$.decision_id' AS decision_id,
         data -> '$.decision' AS decision,
         data ->> '$.inputs_sha256' AS inputs_sha256,
         data ->> '$.decision_sha256' AS decision_sha256
  FROM event WHERE kind = 'decision_made';
CREATE VIEW verdict AS
  SELECT stream, seq, id, incident, make_timestamp(ts_us) AS time,
         data ->> '$.verdict' AS verdict, data ->> '$.reason' AS reason,
         data -> '$.condition' AS condition
  FROM event WHERE kind = 'verdict_reached';
CREATE VIEW incident AS
  SELECT o.incident, make_timestamp(o.ts_us) AS opened_at, make_timestamp(c.ts_us) AS closed_at,
         o.data ->> '$.title' AS title, o.data ->> '$.job' AS job,
         c.data ->> '$.resolution' AS resolution
  FROM (SELECT * FROM event WHERE kind = 'incident_opened') o
  LEFT JOIN (SELECT * FROM event WHERE kind = 'incident_closed') c USING (incident);
CREATE VIEW log AS
  SELECT make_timestamp(ts_us) AS time, stream, seq, kind, incident, host, command,
         exit_status, actor
  FROM event ORDER BY ts_us, stream, seq;
"""

_FIELDS = """['$.id', '$.ts_us', '$.mono_us', '$.boot', '$.kind', '$.schema', '$.actor.kind',
  '$.actor.id', '$.incident', '$.host.name', '$.cause', '$.idem', '$.data.command',
  '$.data.command_id', '$.data.effect', '$.data.exit_status', '$.data.duration_ms']"""

# One JSON walk per line for all fields; the list's order is the column order below.
INSERT = f"""
INSERT INTO event
SELECT stream, seq, f[1], f[2]::BIGINT, f[3]::BIGINT, f[4], f[5], f[6]::INTEGER, f[7], f[8], f[9],
       f[10], f[11], f[12], f[13], f[14], f[15], f[16]::INTEGER, f[17]::BIGINT, segment,
       byte_offset, leaf, head, data, tail
FROM (
  SELECT $stream AS stream, seq, segment, byte_offset, unhex(leaf) AS leaf, head, data, tail,
    json_extract_string(concat(head, data, tail), {_FIELDS}) AS f
  FROM (SELECT unnest($seqs::BIGINT[]) AS seq, unnest($segments::INTEGER[]) AS segment,
               unnest($ats::BIGINT[]) AS byte_offset, unnest($leaves::VARCHAR[]) AS leaf,
               unnest($heads::VARCHAR[]) AS head, unnest($datas::VARCHAR[]) AS data,
               unnest($tails::VARCHAR[]) AS tail))
"""  # noqa: S608 - made of constants only

INSERT_OUTPUTS = """
INSERT INTO output
SELECT $stream, unnest($seqs::BIGINT[]), unnest($names::VARCHAR[]), unnest($commitments::VARCHAR[]),
  unnest($lengths::BIGINT[]), unnest($stored::BIGINT[]), unnest($truncated::BOOLEAN[]),
  unnest($files::VARCHAR[]), unnest($ats::BIGINT[]), unnest($contents::VARCHAR[])
"""

# The first row whose columns do not follow from its own line. data is an object right behind the
# first name "data", and no shorter or longer text there is one.
COLUMNS_DIFFER = f"""
SELECT stream, seq FROM event
WHERE json_extract_string(line, {_FIELDS})
  IS DISTINCT FROM [id, ts_us::VARCHAR, mono_us::VARCHAR, boot, kind, schema::VARCHAR, actor_kind,
    actor, incident, host, cause, idem, command, command_id, effect, exit_status::VARCHAR,
    duration_ms::VARCHAR]
  OR strpos(head, ',"data":') IS DISTINCT FROM length(head) - 7
  OR json_valid(data) IS DISTINCT FROM true
ORDER BY stream, seq LIMIT 1
"""  # noqa: S608 - made of constants only
