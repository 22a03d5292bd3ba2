"""The tables, as makemigrations writes them; docs/architecture.md says how."""

import datetime
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import pgjobs.fields
from django.db import migrations, models
from pgjobs.database.install import RunFiles


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        RunFiles('constraints/holds_key.sql', 'constraints/is_job.sql'),
        migrations.CreateModel(
            name='Batch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('description', models.CharField(blank=True, db_default='', max_length=200, verbose_name='description')),
                ('enqueued_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name='enqueued at')),
            ],
            options={
                'verbose_name': 'batch',
                'verbose_name_plural': 'batches',
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('turn', models.BigIntegerField(db_default=0, verbose_name='turn')),
                ('lease_token', models.BigIntegerField(db_default=0, verbose_name='lease token')),
                ('enqueued_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name='enqueued at')),
                ('attempts', models.IntegerField(db_default=0, verbose_name='attempts')),
                ('failures', models.IntegerField(db_default=0, verbose_name='failures')),
                ('life', models.IntegerField(db_default=1, verbose_name='life')),
                ('priority', models.SmallIntegerField(db_default=0, verbose_name='priority')),
                ('max_attempts', models.SmallIntegerField(db_default=3, verbose_name='most attempts')),
                ('crashes', models.SmallIntegerField(db_default=0, verbose_name='crashes')),
                ('max_crashes', models.SmallIntegerField(db_default=3, verbose_name='most crashes')),
                ('awaited', models.BooleanField(db_default=False, verbose_name='awaited')),
                ('task', models.CharField(max_length=200, verbose_name='task')),
                ('queue_name', models.CharField(db_default='default', max_length=200, verbose_name='queue')),
                ('status', models.CharField(choices=[('READY', 'Ready'), ('SCHEDULED', 'Scheduled'), ('WAITING', 'Waiting'), ('RUNNING', 'Running'), ('SUCCESSFUL', 'Successful'), ('FAILED', 'Failed'), ('CANCELLED', 'Cancelled')], db_default='READY', max_length=10, verbose_name='status')),
                ('args', models.JSONField(db_default=models.Value([], models.JSONField()), decoder=pgjobs.fields.LenientDecoder, verbose_name='unnamed arguments')),
                ('kwargs', models.JSONField(db_default=models.Value({}, models.JSONField()), decoder=pgjobs.fields.LenientDecoder, verbose_name='arguments')),
                ('reason', models.TextField(db_default='', verbose_name='reason')),
                ('started_at', models.DateTimeField(null=True, verbose_name='started at')),
                ('last_attempted_at', models.DateTimeField(null=True, verbose_name='last attempted at')),
                ('finished_at', models.DateTimeField(null=True, verbose_name='finished at')),
                ('run_after', models.DateTimeField(blank=True, null=True, verbose_name='run after')),
                ('expires_at', models.DateTimeField(blank=True, null=True, verbose_name='expires at')),
                ('cancel_requested_at', models.DateTimeField(null=True, verbose_name='cancel requested at')),
                ('timeout', models.FloatField(blank=True, null=True, verbose_name='time limit of an attempt in seconds')),
                ('process_units', models.BigIntegerField(blank=True, null=True, verbose_name='process units')),
                ('return_value', models.JSONField(decoder=pgjobs.fields.LenientDecoder, null=True, verbose_name='result')),
                ('keys', models.JSONField(blank=True, decoder=pgjobs.fields.LenientDecoder, null=True, verbose_name='ties to other jobs')),
                ('waiting_for', models.CharField(blank=True, choices=[('predecessor', 'its predecessors'), ('dependency', 'its dependencies'), ('lock', 'a lock'), ('limit', 'a free place'), ('rate', 'its rate')], max_length=11, null=True, verbose_name='waits for')),
                ('blocked_by_id', models.BigIntegerField(blank=True, null=True, verbose_name='blocked by')),
                ('dependencies', models.JSONField(blank=True, decoder=pgjobs.fields.LenientDecoder, null=True, verbose_name='dependencies')),
                ('unique_key', models.CharField(blank=True, max_length=500, null=True, verbose_name='unique key')),
                ('unique_for', models.CharField(blank=True, choices=[('unfinished', 'until it has ended'), ('waiting', 'until it is started'), ('period', 'for a time, unless it fails or is cancelled')], max_length=10, null=True, verbose_name='unique')),
                ('unique_until', models.DateTimeField(blank=True, null=True, verbose_name='unique until')),
                ('line', models.TextField(blank=True, null=True, verbose_name='line')),
                ('meta', models.JSONField(blank=True, decoder=pgjobs.fields.LenientDecoder, null=True, verbose_name='meta')),
                ('batch', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='jobs', to='pgjobs.batch', verbose_name='batch')),
            ],
            options={
                'verbose_name': 'job',
                'verbose_name_plural': 'jobs',
                'permissions': [('retry_job', 'Can retry jobs'), ('cancel_job', 'Can cancel jobs'), ('fail_job', 'Can fail jobs and mark them as successful'), ('run_job_now', 'Can run scheduled jobs now'), ('view_job_arguments', 'Can see the arguments and results of jobs')],
            },
        ),
        migrations.CreateModel(
            name='Note',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('job_id', models.BigIntegerField(null=True)),
                ('keys', models.JSONField(null=True)),
            ],
            options={
                'verbose_name': 'note',
                'verbose_name_plural': 'notes',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='TaskDefinition',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200, unique=True, verbose_name='name')),
                ('origin', models.TextField(verbose_name='defined as')),
                ('description', models.TextField(blank=True, db_default='', verbose_name='description')),
                ('parameters', models.JSONField(verbose_name='parameters')),
                ('options', models.JSONField(verbose_name='options')),
                ('synced_at', models.DateTimeField(verbose_name='last changed')),
                ('gone_at', models.DateTimeField(blank=True, null=True, verbose_name='gone since')),
            ],
            options={
                'verbose_name': 'task',
                'verbose_name_plural': 'tasks',
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='Worker',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.TextField(verbose_name='name')),
                ('host', models.TextField(verbose_name='host')),
                ('pid', models.IntegerField(verbose_name='process id')),
                ('queues', models.TextField(blank=True, help_text='Empty: all.', verbose_name='queues')),
                ('excluded', models.TextField(blank=True, verbose_name='all queues but')),
                ('slots', models.IntegerField(verbose_name='slots')),
                ('units', models.BigIntegerField(blank=True, null=True, verbose_name='process units of the host')),
                ('started_at', models.DateTimeField(verbose_name='started at')),
                ('heartbeat_at', models.DateTimeField(verbose_name='last sign of life')),
                ('beating_since', models.DateTimeField(verbose_name='beating since')),
                ('lease_until', models.DateTimeField(verbose_name='lease until')),
                ('heartbeat_interval', models.FloatField(verbose_name='heartbeat interval in seconds')),
                ('holds_session_lock', models.BooleanField(verbose_name='holds a session lock')),
            ],
            options={
                'verbose_name': 'worker',
                'verbose_name_plural': 'workers',
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='Progress',
            fields=[
                ('job', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name='progress', serialize=False, to='pgjobs.job')),
                ('done', models.FloatField(null=True, verbose_name='done')),
                ('total', models.FloatField(null=True, verbose_name='total')),
                ('message', models.TextField(db_default='', verbose_name='message')),
                ('log', models.TextField(db_default='', verbose_name='log')),
                ('updated_at', models.DateTimeField(verbose_name='updated at')),
            ],
            options={
                'verbose_name': 'progress',
                'verbose_name_plural': 'progress',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200, verbose_name='name')),
                ('payload', models.JSONField(db_default=models.Value({}, models.JSONField()), decoder=pgjobs.fields.LenientDecoder, verbose_name='payload')),
                ('aggregate_id', models.CharField(blank=True, max_length=200, null=True, verbose_name='aggregate')),
                ('correlation_id', models.CharField(blank=True, max_length=200, null=True, verbose_name='correlation')),
                ('published_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name='published at')),
                ('handlers', models.IntegerField(db_default=0, verbose_name='handlers')),
                ('meta', models.JSONField(blank=True, decoder=pgjobs.fields.LenientDecoder, null=True, verbose_name='meta')),
            ],
            options={
                'verbose_name': 'event',
                'verbose_name_plural': 'events',
                'permissions': [('redeliver_event', 'Can redeliver events')],
                'default_permissions': ('view',),
                'indexes': [models.Index(models.F('published_at'), name='pgjobs_event_published'), models.Index(models.F('name'), models.F('published_at'), condition=models.Q(('handlers', 0)), name='pgjobs_event_unhandled'), models.Index(models.F('aggregate_id'), models.F('id'), condition=models.Q(('aggregate_id__isnull', False)), name='pgjobs_event_aggregate'), models.Index(models.F('correlation_id'), models.F('id'), condition=models.Q(('correlation_id__isnull', False)), name='pgjobs_event_correlation')],
            },
        ),
        migrations.CreateModel(
            name='Figure',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('start', models.DateTimeField(verbose_name='start')),
                ('seconds', models.FloatField(db_default=0, verbose_name='run time in seconds')),
                ('successful', models.IntegerField(db_default=0, verbose_name='successful')),
                ('failed', models.IntegerField(db_default=0, verbose_name='failed')),
                ('cancelled', models.IntegerField(db_default=0, verbose_name='cancelled')),
                ('retried', models.IntegerField(db_default=0, verbose_name='retried')),
                ('span', models.SmallIntegerField(choices=[(1, 'minute'), (60, 'hour')], verbose_name='span')),
                ('queue_name', models.CharField(max_length=200, verbose_name='queue')),
                ('task', models.CharField(max_length=200, verbose_name='task')),
                ('run_times', pgjobs.fields.Histogram(verbose_name='run times')),
                ('wait_times', pgjobs.fields.Histogram(verbose_name='waiting times')),
            ],
            options={
                'verbose_name': 'figure',
                'verbose_name_plural': 'figures',
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('span', 'start', 'queue_name', 'task'), name='pgjobs_figure_once')],
            },
        ),
        migrations.CreateModel(
            name='Predecessor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('job_id', models.BigIntegerField()),
                ('predecessor_id', models.BigIntegerField(null=True)),
                ('batch_id', models.BigIntegerField(null=True)),
                ('needs', models.CharField(choices=[('success', 'its success'), ('end', 'its end'), ('failure', 'its failure'), ('dependency', 'its success, or the job fails')], db_default='success', max_length=10)),
                ('is_open', models.BooleanField(db_default=True)),
            ],
            options={
                'verbose_name': 'predecessor',
                'verbose_name_plural': 'predecessors',
                'default_permissions': (),
                'indexes': [models.Index(models.F('predecessor_id'), models.F('is_open'), models.F('job_id'), condition=models.Q(('predecessor_id__isnull', False)), name='pgjobs_predecessor_jobs'), models.Index(models.F('batch_id'), models.F('is_open'), models.F('job_id'), condition=models.Q(('batch_id__isnull', False)), name='pgjobs_predecessor_batch_jobs'), models.Index(models.F('id'), condition=models.Q(('is_open', True)), name='pgjobs_predecessor_open')],
                'constraints': [models.UniqueConstraint(fields=('job_id', 'predecessor_id'), name='pgjobs_predecessor_once'), models.UniqueConstraint(fields=('job_id', 'batch_id'), name='pgjobs_predecessor_batch_once'), models.CheckConstraint(condition=models.Q(models.Q(('batch_id__isnull', True), ('predecessor_id__isnull', False)), models.Q(('batch_id__isnull', False), ('predecessor_id__isnull', True)), _connector='OR'), name='pgjobs_predecessor_one'), models.CheckConstraint(condition=models.Q(('needs__in', ['success', 'end', 'failure', 'dependency'])), name='pgjobs_predecessor_needs')],
            },
        ),
        migrations.CreateModel(
            name='Prerequisite',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('job_id', models.BigIntegerField()),
                ('key', models.CharField(max_length=500)),
                ('finished_at', models.DateTimeField(null=True)),
                ('needed_until', models.DateTimeField(null=True)),
            ],
            options={
                'verbose_name': 'prerequisite',
                'verbose_name_plural': 'prerequisites',
                'default_permissions': (),
                'indexes': [models.Index(models.F('key'), models.F('finished_at'), name='pgjobs_prerequisite_key')],
                'constraints': [models.UniqueConstraint(fields=('job_id', 'key'), name='pgjobs_prerequisite_once')],
            },
        ),
        migrations.CreateModel(
            name='Queue',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200, unique=True, validators=[django.core.validators.RegexValidator('^[^,\\x00-\\x1f\\x7f-\\x9f]+\\Z', 'Enter a name without commas and control characters.')], verbose_name='name')),
                ('paused_at', models.DateTimeField(blank=True, null=True, verbose_name='paused at')),
                ('max_running', models.IntegerField(blank=True, help_text='Of all workers together. Empty: as many as there are slots.', null=True, validators=[django.core.validators.MinValueValidator(1)], verbose_name='most running jobs')),
                ('note', models.TextField(blank=True, db_default='', verbose_name='note')),
            ],
            options={
                'verbose_name': 'queue',
                'verbose_name_plural': 'queues',
                'permissions': [('pause_queue', 'Can pause and resume queues')],
                'default_permissions': ('add', 'change', 'view'),
                'indexes': [models.Index(models.F('name'), condition=models.Q(('paused_at__isnull', False)), name='pgjobs_queue_paused'), models.Index(models.F('name'), condition=models.Q(('max_running__isnull', False)), name='pgjobs_queue_limited')],
                'constraints': [models.CheckConstraint(condition=models.Q(('max_running__gte', 1)), name='pgjobs_queue_max_running')],
            },
        ),
        migrations.CreateModel(
            name='Rate',
            fields=[
                ('key', models.CharField(max_length=500, primary_key=True, serialize=False)),
                ('full_at', models.DateTimeField()),
                ('opens_at', models.DateTimeField(null=True)),
            ],
            options={
                'verbose_name': 'rate',
                'verbose_name_plural': 'rates',
                'default_permissions': (),
                'indexes': [models.Index(models.F('opens_at'), condition=models.Q(('opens_at__isnull', False)), name='pgjobs_rate_opens_at')],
            },
        ),
        migrations.CreateModel(
            name='Schedule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200, unique=True, verbose_name='name')),
                ('task', models.CharField(max_length=200, verbose_name='task')),
                ('args', models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), decoder=pgjobs.fields.LenientDecoder, default=list, verbose_name='unnamed arguments')),
                ('kwargs', models.JSONField(blank=True, db_default=models.Value({}, models.JSONField()), decoder=pgjobs.fields.LenientDecoder, default=dict, verbose_name='arguments')),
                ('every', models.DurationField(blank=True, null=True, verbose_name='every')),
                ('cron', models.CharField(blank=True, db_default='', default='', max_length=200, verbose_name='cron')),
                ('timezone', models.CharField(db_default='UTC', default='UTC', max_length=100, verbose_name='time zone')),
                ('anchor', models.CharField(choices=[('start', 'Fixed times'), ('end', 'Counted from the end of the last run')], db_default='start', default='start', max_length=10, verbose_name='interval')),
                ('overlap', models.CharField(choices=[('skip', 'Skip: not while the last run is unfinished'), ('allow', 'Allow: enqueue it beside the last run')], db_default='skip', default='skip', max_length=10, verbose_name='overlap')),
                ('catch_up', models.CharField(choices=[('latest', 'One run for all missed ones'), ('all', 'All missed runs'), ('none', 'None: missed runs are skipped')], db_default='latest', default='latest', max_length=10, verbose_name='catch up')),
                ('jitter', models.DurationField(db_default=datetime.timedelta(0), default=datetime.timedelta(0), verbose_name='jitter')),
                ('start_at', models.DateTimeField(blank=True, null=True, verbose_name='start')),
                ('end_at', models.DateTimeField(blank=True, null=True, verbose_name='end')),
                ('paused', models.BooleanField(db_default=False, default=False, verbose_name='paused')),
                ('declared', models.JSONField(blank=True, null=True, verbose_name='as declared')),
                ('orphaned', models.BooleanField(db_default=False, default=False, verbose_name='orphaned')),
                ('origin_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name='counted from')),
                ('next_run_at', models.DateTimeField(blank=True, null=True, verbose_name='next run')),
                ('last_run_at', models.DateTimeField(blank=True, null=True, verbose_name='last run at')),
                ('run_count', models.BigIntegerField(db_default=0, default=0, verbose_name='runs')),
                ('skip_count', models.BigIntegerField(db_default=0, default=0, verbose_name='skipped')),
                ('error', models.TextField(blank=True, db_default='', default='', verbose_name='error')),
                ('last_job', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='pgjobs.job', verbose_name='last run')),
            ],
            options={
                'verbose_name': 'schedule',
                'verbose_name_plural': 'schedules',
                'permissions': [('run_schedule', 'Can run schedules now'), ('pause_schedule', 'Can pause and resume schedules')],
            },
        ),
        migrations.CreateModel(
            name='Step',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('life', models.IntegerField(verbose_name='life')),
                ('name', models.CharField(max_length=200, verbose_name='name')),
                ('return_value', models.JSONField(decoder=pgjobs.fields.LenientDecoder, null=True, verbose_name='result')),
                ('attempt', models.IntegerField(verbose_name='attempt')),
                ('finished_at', models.DateTimeField(verbose_name='finished at')),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='steps', to='pgjobs.job')),
            ],
            options={
                'verbose_name': 'step',
                'verbose_name_plural': 'steps',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Subscription',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('task', models.CharField(max_length=200, verbose_name='task')),
                ('event', models.CharField(max_length=200, verbose_name='event')),
                ('is_ordered', models.BooleanField(db_default=False, verbose_name='in order')),
                ('queue_name', models.CharField(db_default='default', max_length=200, verbose_name='queue')),
                ('priority', models.SmallIntegerField(db_default=0, verbose_name='priority')),
                ('max_attempts', models.SmallIntegerField(db_default=8, verbose_name='most attempts')),
                ('max_crashes', models.SmallIntegerField(db_default=3, verbose_name='most crashes')),
                ('timeout', models.FloatField(blank=True, null=True, verbose_name='time limit of an attempt in seconds')),
                ('expires_in', models.FloatField(blank=True, null=True, verbose_name='seconds until it expires')),
                ('process_units', models.BigIntegerField(blank=True, null=True, verbose_name='process units')),
                ('keys', models.JSONField(blank=True, decoder=pgjobs.fields.LenientDecoder, null=True, verbose_name='lock, limit and rate')),
                ('inactive_at', models.DateTimeField(blank=True, null=True, verbose_name='inactive since')),
                ('since', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name='since')),
            ],
            options={
                'verbose_name': 'subscription',
                'verbose_name_plural': 'subscriptions',
                'default_permissions': ('view',),
                'constraints': [models.UniqueConstraint(fields=('task', 'event'), name='pgjobs_subscription_once')],
            },
        ),
        migrations.CreateModel(
            name='Tick',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('time', models.DateTimeField(verbose_name='time')),
                ('job', models.OneToOneField(db_constraint=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='tick', to='pgjobs.job', verbose_name='job')),
                ('schedule', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='ticks', to='pgjobs.schedule', verbose_name='schedule')),
            ],
            options={
                'verbose_name': 'tick',
                'verbose_name_plural': 'ticks',
                'default_permissions': ('view',),
            },
        ),
        migrations.AddField(
            model_name='job',
            name='worker',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='jobs', to='pgjobs.worker', verbose_name='worker'),
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('job', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name='delivery', serialize=False, to='pgjobs.job', verbose_name='job')),
                ('task', models.CharField(max_length=200, verbose_name='task')),
                ('origin', models.CharField(choices=[('published', 'when it was published'), ('late', 'late: the handler had not subscribed when it was published'), ('replayed', 'when it was replayed or redelivered')], db_default='published', max_length=10, verbose_name='delivered')),
                ('event', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='deliveries', to='pgjobs.event', verbose_name='event')),
            ],
            options={
                'verbose_name': 'delivery',
                'verbose_name_plural': 'deliveries',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('life', models.IntegerField(verbose_name='life')),
                ('number', models.IntegerField(verbose_name='number')),
                ('worker_name', models.TextField(verbose_name='worker')),
                ('started_at', models.DateTimeField(null=True, verbose_name='started at')),
                ('finished_at', models.DateTimeField(verbose_name='finished at')),
                ('outcome', models.CharField(choices=[('FAILED', 'Failed'), ('CRASHED', 'Worker lost'), ('RELEASED', 'Released'), ('SNOOZED', 'Snoozed'), ('CANCELLED', 'Cancelled')], max_length=10, verbose_name='outcome')),
                ('exception_class', models.TextField(db_default='', verbose_name='exception')),
                ('message', models.TextField(db_default='', verbose_name='message')),
                ('traceback', models.TextField(db_default='', verbose_name='traceback')),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='attempts_made', to='pgjobs.job')),
            ],
            options={
                'verbose_name': 'attempt',
                'verbose_name_plural': 'attempts',
                'default_permissions': ('view',),
                'constraints': [models.UniqueConstraint(fields=('job', 'life', 'number'), name='pgjobs_attempt_once')],
            },
        ),
        migrations.AddIndex(
            model_name='schedule',
            index=models.Index(models.F('next_run_at'), models.F('id'), condition=models.Q(('next_run_at__isnull', False), ('orphaned', False), ('paused', False)), name='pgjobs_schedule_due'),
        ),
        migrations.AddIndex(
            model_name='schedule',
            index=models.Index(models.F('id'), condition=models.Q(('anchor', 'end'), ('next_run_at__isnull', True)), name='pgjobs_schedule_awaiting'),
        ),
        migrations.AddIndex(
            model_name='schedule',
            index=models.Index(models.F('last_job_id'), condition=models.Q(('last_job__isnull', False)), name='pgjobs_schedule_last_job'),
        ),
        migrations.AddConstraint(
            model_name='schedule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('cron', ''), ('every__isnull', False)), models.Q(('anchor', 'start'), ('every__isnull', True), models.Q(('cron', ''), _negated=True)), _connector='OR'), name='pgjobs_schedule_when'),
        ),
        migrations.AddConstraint(
            model_name='schedule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('every__isnull', True), models.Q(('every__gte', datetime.timedelta(seconds=1)), ('every__lte', datetime.timedelta(days=36500))), _connector='OR'), ('jitter__gte', datetime.timedelta(0)), ('jitter__lte', datetime.timedelta(days=36500))), name='pgjobs_schedule_durations'),
        ),
        migrations.AddConstraint(
            model_name='schedule',
            constraint=models.CheckConstraint(condition=models.Q(('start_at__isnull', True), ('end_at__isnull', True), ('start_at__lt', models.F('end_at')), _connector='OR'), name='pgjobs_schedule_dates'),
        ),
        migrations.AddConstraint(
            model_name='step',
            constraint=models.UniqueConstraint(fields=('job', 'life', 'name'), name='pgjobs_step_once'),
        ),
        migrations.AddConstraint(
            model_name='tick',
            constraint=models.UniqueConstraint(fields=('schedule', 'time'), name='pgjobs_tick_once'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(models.F('queue_name'), models.OrderBy(models.F('priority'), descending=True), models.F('turn'), condition=models.Q(('status', 'READY')), name='pgjobs_job_ready'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(models.OrderBy(models.F('priority'), descending=True), models.F('turn'), condition=models.Q(('status__startswith', 'READY')), name='pgjobs_job_in_line'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(models.F('run_after'), models.F('id'), condition=models.Q(('status', 'SCHEDULED')), name='pgjobs_job_scheduled'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(models.F('line'), models.F('queue_name'), models.OrderBy(models.F('priority'), descending=True), models.F('turn'), condition=models.Q(('line__isnull', False)), name='pgjobs_job_line'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(models.F('batch'), models.F('status'), condition=models.Q(('batch__isnull', False)), name='pgjobs_job_batch'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(models.F('expires_at'), condition=models.Q(('attempts', 0), ('expires_at__isnull', False), ('finished_at__isnull', True)), name='pgjobs_job_expiring'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(models.F('worker_id'), condition=models.Q(('status', 'RUNNING')), name='pgjobs_job_running'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(models.OrderBy(models.F('priority'), descending=True), models.F('turn'), condition=models.Q(('process_units__isnull', False), ('status', 'READY')), name='pgjobs_job_units'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(models.F('status'), models.F('finished_at'), condition=models.Q(('finished_at__isnull', False)), name='pgjobs_job_finished'),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.UniqueConstraint(condition=models.Q(('unique_key__isnull', False), pgjobs.fields.HoldsKey()), fields=('unique_key', 'unique_for'), name='pgjobs_job_unique'),
        ),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.UniqueConstraint(fields=('event', 'task'), name='pgjobs_delivery_once'),
        ),
        RunFiles('tables/jobs.sql', 'tables/admission.sql', 'tables/schedules.sql', 'tables/events.sql'),
    ]
